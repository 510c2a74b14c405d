"""Names of `blockbasis.operators` under their former path."""

from blockbasis.operators.block_basis import BlockBasis as BlockBasis
from blockbasis.operators.block_basis import held_diagonal as held_diagonal
from blockbasis.operators.cross import CrossBlockBasis as CrossBlockBasis
from blockbasis.operators.entries import Entries as Entries
from blockbasis.operators.product import Product as Product
