"""Factorization of I + S by the connected components of S: dense, or sparse inside an envelope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blockbasis._utils import machine
from blockbasis._utils.linalg import eigenpairs
from blockbasis.solvers.shifted import ShiftedFactorization, cholesky_factorization, spectral_factorization
from blockbasis.solvers.skyline import envelope, skyline_factorization

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, Index, IntArray
    from blockbasis.operators.inner import InnerMatrix

#: Dense matrices of the size of a component during its solves: the factor and its inverse, or eigenvectors and work.
_DENSE_COPIES = 2
#: Number of columns below which the free memory is not asked for.
_FEW_COLUMNS = 500


@dataclass(frozen=True, eq=False)
class Component:
    """Connected component of the graph whose edges are the nonzero blocks of C.

    Parameters
    ----------
    clusters : ndarray of ints
        Clusters of the component, in ascending order.
    columns : slice or ndarray of ints
        Columns of C that belong to these clusters.
    inner : InnerMatrix
        Submatrix of C with these rows and columns.
    """

    clusters: IntArray
    columns: Index
    inner: InnerMatrix


def components(inner: InnerMatrix) -> tuple[Component, ...]:
    """Return the connected components of a symmetric C."""
    slices = rank_slices(np.diff(inner.row_offsets))
    found = []
    for clusters in inner.components():
        columns: Index = slice(0, inner.shape[0])
        if len(clusters) < len(slices):
            columns = np.concatenate([np.arange(slices[i].start, slices[i].stop) for i in clusters])
        found.append(Component(clusters, columns, inner.component(clusters)))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class ComponentFactorization:
    """Factorization of I + S with one factorization for each connected component.

    Parameters
    ----------
    components : tuple of Component
    factorizations : tuple of ShiftedFactorization
        Factorization of the part of I + S that belongs to each component.
    """

    components: tuple[Component, ...]
    factorizations: tuple[ShiftedFactorization, ...]

    def solve(self, W: FloatArray) -> FloatArray:
        """Return (I + S)^-1 W."""
        if len(self.components) == 1:
            return self.factorizations[0].solve(W)
        result = np.empty(W.shape)
        for part, factorization in zip(self.components, self.factorizations, strict=True):
            result[part.columns] = factorization.solve(W[part.columns])
        return result

    def logdet(self) -> float:
        """Return log det(I + S)."""
        return sum(factorization.logdet() for factorization in self.factorizations)

    def inverse_blocks(self, blocks: list[slice]) -> Iterator[FloatArray]:
        """Yield the diagonal block of (I + S)^-1 of every cluster; ``blocks`` holds the columns of all clusters."""
        if len(self.components) == 1:
            yield from self.factorizations[0].inverse_blocks(blocks)
            return
        found: dict[int, FloatArray] = {}
        for part, factorization in zip(self.components, self.factorizations, strict=True):
            own = rank_slices(np.diff(part.inner.row_offsets))
            found |= dict(zip(part.clusters.tolist(), factorization.inverse_blocks(own), strict=True))
        for i in range(len(blocks)):
            yield found[i]


def factorize_shifted(inner: InnerMatrix, triangles: tuple[FloatArray, ...]) -> ComponentFactorization:
    """Factorize I + R C Rᵀ; raise a LinAlgError if it is not positive definite."""
    parts = components(inner)
    factorizations = tuple(_factorize_component(part.inner, _triangles_of(part, triangles)) for part in parts)
    return ComponentFactorization(parts, factorizations)


def _require_memory(inner: InnerMatrix) -> None:
    """Raise a MemoryError where the dense matrices of a component do not fit into memory."""
    if (size := inner.shape[0]) > _FEW_COLUMNS:
        machine.require_memory(8 * _DENSE_COPIES * size**2, "a larger tol or smaller ranks", what="solve")


def _factorize_component(inner: InnerMatrix, triangles: tuple[FloatArray, ...]) -> ShiftedFactorization:
    """Return a dense or a skyline Cholesky factorization, or a spectral one if I + S is not positive definite."""
    shape = envelope(inner) if inner.density < 1 else None
    found: ShiftedFactorization | None
    if shape is not None and shape.is_faster_than_dense:
        found = skyline_factorization(inner, triangles, shape)
    else:
        _require_memory(inner)
        found = cholesky_factorization(upper_congruent(inner, triangles))
    if found is None:
        found = spectral_factorization(*eigenpairs(congruent(inner, triangles)), precision_of(inner))
    return found


@dataclass(frozen=True, eq=False)
class ComponentSpectra:
    """Eigenpairs of S = R C Rᵀ for each connected component, from which multiples of S are factorized.

    Parameters
    ----------
    components : tuple of Component
    pairs : tuple of (values, vectors)
        Eigenvalues and eigenvectors of the part of S that belongs to each component.
    """

    components: tuple[Component, ...]
    pairs: tuple[tuple[FloatArray, FloatArray], ...]

    def scaled(self, factor: float) -> ComponentFactorization:
        """Return the factorization of I + factor S."""
        factorizations = [
            spectral_factorization(values * factor, vectors, precision_of(part.inner))
            for part, (values, vectors) in zip(self.components, self.pairs, strict=True)
        ]
        return ComponentFactorization(self.components, tuple(factorizations))


def spectra(inner: InnerMatrix, triangles: tuple[FloatArray, ...]) -> ComponentSpectra:
    """Return the eigenpairs of R C Rᵀ."""
    parts = components(inner)
    for part in parts:
        _require_memory(part.inner)
    pairs = tuple(eigenpairs(congruent(part.inner, _triangles_of(part, triangles))) for part in parts)
    return ComponentSpectra(parts, pairs)


def _triangles_of(part: Component, triangles: tuple[FloatArray, ...]) -> tuple[FloatArray, ...]:
    return tuple(triangles[i] for i in part.clusters)


def precision_of(inner: InnerMatrix) -> float:
    """Return the machine epsilon of the dtype of C."""
    return float(np.finfo(inner.dtype).eps)


def congruent(inner: InnerMatrix, triangles: tuple[FloatArray, ...]) -> FloatArray:
    """Return R C Rᵀ as a new dense array."""
    S = upper_congruent(inner, triangles)
    for block in rank_slices(np.diff(inner.row_offsets)):
        S[block.stop :, block] = S[block, block.stop :].T
    return S


def upper_congruent(inner: InnerMatrix, triangles: tuple[FloatArray, ...]) -> FloatArray:
    """Return R C Rᵀ as a new dense array with zeros in the blocks below the diagonal, at half the cost."""
    S = np.zeros(inner.shape)
    blocks = rank_slices(np.diff(inner.row_offsets))
    for i, (R, block) in enumerate(zip(triangles, blocks, strict=True)):
        S[block, inner.columns_of(i)] = R @ inner.row_panel(i)
    for R, block in zip(triangles, blocks, strict=True):
        S[: block.stop, block] = S[: block.stop, block] @ R.T
    return S


def rank_slices(ranks: IntArray) -> list[slice]:
    """Return the range of the columns of each cluster in U."""
    ends = np.cumsum(ranks).tolist()
    return [slice(end - int(rank), end) for end, rank in zip(ends, ranks, strict=True)]
