"""Common parts of the experiments: data structures, data sets, measurements, plots, tables and execution."""
