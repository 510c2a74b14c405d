"""What experiments are made of: their parts, points, measurements, curves, tables and how they are run."""
