"""I + S by the connected components of S, each factored as its structure suggests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from blockbasis._utils.linalg import eigenpairs
from blockbasis._utils.typing import FloatArray, Index, IntArray
from blockbasis.operators.inner import InnerMatrix
from blockbasis.solvers.shifted import Shifted, cholesky, spectral
from blockbasis.solvers.skyline import envelope, skyline


@dataclass(frozen=True, eq=False)
class Component:
    """Clusters of C that are connected by blocks, and no others with them.

    Parameters
    ----------
    clusters : ndarray of ints
        Ascending.
    columns : slice or ndarray of ints
        Their columns in C.
    inner : InnerMatrix
        Their part of C.
    """

    clusters: IntArray
    columns: Index
    inner: InnerMatrix


def components(inner: InnerMatrix) -> tuple[Component, ...]:
    """Connected components of a symmetric C."""
    slices = rank_slices(np.diff(inner.row_offsets))
    found = []
    for clusters in inner.components():
        columns: Index = slice(0, inner.shape[0])
        if len(clusters) < len(slices):
            columns = np.concatenate([np.arange(slices[i].start, slices[i].stop) for i in clusters])
        found.append(Component(clusters, columns, inner.component(clusters)))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class ByComponents:
    """I + S factored, one factored form for each component.

    Parameters
    ----------
    parts : tuple of Component
    forms : tuple of Shifted
    """

    parts: tuple[Component, ...]
    forms: tuple[Shifted, ...]

    def solve(self, W: FloatArray) -> FloatArray:
        if len(self.parts) == 1:
            return self.forms[0].solve(W)
        result = np.empty(W.shape)
        for part, form in zip(self.parts, self.forms, strict=True):
            result[part.columns] = form.solve(W[part.columns])
        return result

    def logdet(self) -> float:
        return sum(form.logdet() for form in self.forms)

    def inverse_blocks(self, blocks: list[slice]) -> Iterator[FloatArray]:
        """Diagonal blocks of (I + S)^-1, one for each cluster: ``blocks`` are the clusters' columns."""
        if len(self.parts) == 1:
            yield from self.forms[0].inverse_blocks(blocks)
            return
        found: dict[int, FloatArray] = {}
        for part, form in zip(self.parts, self.forms, strict=True):
            own = rank_slices(np.diff(part.inner.row_offsets))
            found |= dict(zip(part.clusters.tolist(), form.inverse_blocks(own), strict=True))
        for i in range(len(blocks)):
            yield found[i]


def factored(inner: InnerMatrix, triangles: tuple[FloatArray, ...]) -> ByComponents:
    """I + R C Rᵀ factored; a LinAlgError when it is not positive definite."""
    parts = components(inner)
    return ByComponents(parts, tuple(_factored(part.inner, _some(triangles, part)) for part in parts))


def _factored(inner: InnerMatrix, triangles: tuple[FloatArray, ...]) -> Shifted:
    """A dense Cholesky factorization, or one inside an envelope; by eigenvalues where there is none."""
    shape = envelope(inner) if inner.density < 1 else None
    small: Shifted | None = (
        cholesky(upper_congruent(inner, triangles))
        if shape is None or not shape.pays
        else skyline(inner, triangles, shape)
    )
    if small is None:
        small = spectral(*eigenpairs(congruent(inner, triangles)), precision_of(inner))
    return small


@dataclass(frozen=True, eq=False)
class Spectra:
    """Eigenpairs of S = R C Rᵀ, component by component, for every multiple of S."""

    parts: tuple[Component, ...]
    pairs: tuple[tuple[FloatArray, FloatArray], ...]

    def scaled(self, factor: float) -> ByComponents:
        """I + factor S."""
        forms = [
            spectral(values * factor, vectors, precision_of(part.inner))
            for part, (values, vectors) in zip(self.parts, self.pairs, strict=True)
        ]
        return ByComponents(self.parts, tuple(forms))


def spectra(inner: InnerMatrix, triangles: tuple[FloatArray, ...]) -> Spectra:
    """Eigenpairs of R C Rᵀ."""
    parts = components(inner)
    return Spectra(parts, tuple(eigenpairs(congruent(part.inner, _some(triangles, part))) for part in parts))


def _some(triangles: tuple[FloatArray, ...], part: Component) -> tuple[FloatArray, ...]:
    return tuple(triangles[i] for i in part.clusters)


def precision_of(inner: InnerMatrix) -> float:
    """Rounding unit in which C is stored."""
    return float(np.finfo(inner.dtype).eps)


def congruent(inner: InnerMatrix, triangles: tuple[FloatArray, ...]) -> FloatArray:
    """R C Rᵀ as a new dense array."""
    S = upper_congruent(inner, triangles)
    for block in rank_slices(np.diff(inner.row_offsets)):
        S[block.stop :, block] = S[block, block.stop :].T
    return S


def upper_congruent(inner: InnerMatrix, triangles: tuple[FloatArray, ...]) -> FloatArray:
    """The same, zero in the blocks below the diagonal: all that a Cholesky factorization reads, at half the cost."""
    S = np.zeros(inner.shape)
    blocks = rank_slices(np.diff(inner.row_offsets))
    for i, (R, block) in enumerate(zip(triangles, blocks, strict=True)):
        S[block, inner.columns_of(i)] = R @ inner.row_panel(i)
    for R, block in zip(triangles, blocks, strict=True):
        S[: block.stop, block] = S[: block.stop, block] @ R.T
    return S


def rank_slices(ranks: IntArray) -> list[slice]:
    """The range of each cluster among the R columns of U."""
    ends = np.cumsum(ranks).tolist()
    return [slice(end - int(rank), end) for end, rank in zip(ends, ranks, strict=True)]
