"""The figures and tables of the paper: one file for each."""
