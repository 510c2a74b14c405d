"""How a factorization is made: sampled columns, cluster bases, inner matrix, diagonal part."""
