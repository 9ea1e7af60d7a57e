"""Readers: LETOR text, data frames, Parquet, Arrow and CSV."""
