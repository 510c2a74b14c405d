"""The cost of a factorization, and the clusters and ranks that meet a tolerance or keep a budget."""
