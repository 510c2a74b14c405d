"""Factorizations as data structures: their arrays, products and files. Package `construction` computes them."""

from blockbasis.operators.block_basis import BlockBasis as BlockBasis
from blockbasis.operators.block_diagonal import BlockDiagonal as BlockDiagonal
from blockbasis.operators.cross import CrossBlockBasis as CrossBlockBasis
from blockbasis.operators.entries import Entries as Entries
from blockbasis.operators.error_estimate import ErrorEstimate as ErrorEstimate
from blockbasis.operators.exact import ExactCrossKernel as ExactCrossKernel
from blockbasis.operators.exact import ExactKernel as ExactKernel
from blockbasis.operators.extension import Extension as Extension
from blockbasis.operators.inner import Cutoff as Cutoff
from blockbasis.operators.inner import InnerMatrix as InnerMatrix
from blockbasis.operators.product import Product as Product
from blockbasis.operators.product import RealOperator as RealOperator
from blockbasis.operators.storage import StorageError as StorageError
from blockbasis.operators.storage import load as load
from blockbasis.operators.storage import save as save
