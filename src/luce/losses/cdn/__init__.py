"""StructRank: partial orders under a cumulative distribution network, [StructRank] (1).

The files in reading order:

1. `order_graph`: the edges that grades or comparisons imply, and which of them a topology couples;
2. `edge_functions`: the functions of two edges that a network multiplies, beside the bivariate sigmoid;
3. `point_sums`: the bivariate sigmoid over all pairs of edges, in linear time;
4. `sigmoid_kernels`: the same for the queries of a chunk, by grades, listed edges, listed pairs and hubs;
5. `array_sums`: networks of any other function, as array code;
6. `query_chunks`: which of these does a chunk of queries, and what it fills;
7. `loss`: the loss `cdn` with its settings and learned weights;
8. `order_probabilities`: probabilities of whole orders that a fitted network gives.
"""
