"""StructRank: partial orders under a cumulative distribution network, [StructRank] (1).

The files in reading order:

1. `order_graph`: the edges that grades or comparisons imply, and which of them a topology couples;
2. `functions`: the functions of two edges that a network multiplies, and their sums as array code;
3. `sigmoids`: the bivariate sigmoid over all pairs of edges, compiled, in linear time;
4. `loss`: the loss `cdn` with its settings and learned weights;
5. `order_probabilities`: probabilities of whole orders that a fitted network gives.
"""
