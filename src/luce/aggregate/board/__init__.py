"""Leaderboards from comparisons with draws and from races with ties.

intake (any table of battles or races) -> counts -> a likelihood on a linear design -> Newton -> intervals -> `Board`.
"""
