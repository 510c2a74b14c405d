"""What a factorization will cost, and which clusters and ranks it takes to reach a tolerance or keep a budget."""
