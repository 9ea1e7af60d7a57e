"""Joins a scorer and a loss: one objective, several trainers, one checkpoint format."""
