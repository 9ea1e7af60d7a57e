"""Boards of models x tasks: scores become races with ties, and tasks are what is resampled.

table (wide or long, with gaps) -> tiers of every task -> strengths by one of four methods -> rank sets -> `ScoreBoard`.
"""
