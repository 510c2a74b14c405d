"""Points that are read in pieces: sources of rows, the pass over them, and sums that ridge regression needs."""

from blockbasis.streaming.sources import ArrayRows as ArrayRows
from blockbasis.streaming.sources import ChunkRows as ChunkRows
from blockbasis.streaming.sources import ParquetRows as ParquetRows
from blockbasis.streaming.sources import Rows as Rows
