"""Samplers: random streams for compiled code, Markov chains and exact draws over partitions."""
