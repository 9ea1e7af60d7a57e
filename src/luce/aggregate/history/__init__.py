"""Strengths that move: random walks with draws, all history at once, and a filter for what comes in daily.

games in order of time -> drift by marginal likelihood -> Newton on all history -> a Gaussian of now -> `History`.
"""
