"""Raggedness, stable arithmetic and fast sums; knows nothing of ranking models."""
