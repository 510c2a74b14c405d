"""The inner matrix made positive semi-definite, the diagonal part giving way to it.

Each cluster has taken out of its own block what its basis does not hold. Where near points stand in different clusters
that can be too much: the blocks between them then make C indefinite, and what is cut off with the negative eigenvalues
is lost. So C and the diagonal part settle once more, now for all clusters together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from blockbasis._linalg import DEFINITE, semidefinite_part
from blockbasis._typing import FloatArray
from blockbasis.basis import ClusterBasis
from blockbasis.directions import energy_of
from blockbasis.inner import InnerMatrix
from blockbasis.ranks import residual
from blockbasis.settling import SETTLED_SHARE, STRIDE, diagonal_of

#: Negative eigenvalues of so many roundings of the largest entry on the diagonal come from the precision of the work.
_ROUNDINGS = 10
#: How often C and the diagonal part are fitted to each other; each time costs an eigendecomposition of C.
_UPDATES = 10
#: They end where one has not lowered what is lost to this part.
_WORTH_ANOTHER = 0.8


def nearest_semidefinite(inner: InnerMatrix, dtype: npt.DTypeLike = np.float64) -> InnerMatrix:
    """The inner matrix without its negative eigenvalues; itself when it has none beyond the rounding of ``dtype``.

    Kernel entries in float32 leave such eigenvalues, storage in float32 brings them back: they are not worth an
    eigendecomposition.
    """
    dense = inner.todense()
    definite = semidefinite_part(dense, _rounding(dtype))
    return inner if definite is dense else inner.with_entries(definite)


def settled_semidefinite(
    inner: InnerMatrix,
    bases: Sequence[ClusterBasis],
    diagonals: Sequence[FloatArray],
    dtype: npt.DTypeLike,
    *,
    exact: bool,
    allowed: float = 0.0,
) -> InnerMatrix:
    """The same where a diagonal part will be kept, which is lowered while much would be lost otherwise.

    Parameters
    ----------
    inner : InnerMatrix
        For K less the diagonal part of the bases.
    bases : sequence of ClusterBasis
    diagonals : sequence of arrays
        k(x, x) of the points of every cluster.
    dtype : dtype
        Of the kernel entries.
    exact : bool
        Whether C is UᵀKU, and not determined by some rows.
    allowed : float, default=0
        Squared error that the whole factorization may have.
    """
    computed = inner.todense()
    left = [basis.diagonal.astype(np.float64) for basis in bases]
    enough = SETTLED_SHARE * max(_unheld(bases), allowed)
    before = np.inf
    for update in range(_UPDATES + 1):
        definite = semidefinite_part(computed, _rounding(dtype))
        lost = energy_of(computed) - energy_of(definite)
        if lost <= enough or lost > _WORTH_ANOTHER * before or update == _UPDATES:
            break
        before = lost
        _take_back(computed, definite, bases, diagonals, left, exact)
    return inner.with_entries(definite)


def _unheld(bases: Sequence[ClusterBasis]) -> float:
    """Squared error that the bases leave."""
    known = [(basis.spectrum, basis.vectors.shape[1]) for basis in bases]
    return sum(residual(spectrum, rank) for spectrum, rank in known if spectrum is not None)


def _take_back(
    computed: FloatArray,
    definite: FloatArray,
    bases: Sequence[ClusterBasis],
    diagonals: Sequence[FloatArray],
    left: list[FloatArray],
    exact: bool,
) -> None:
    """Bring the diagonal part nearer to what the definite matrix leaves, and C with it, in place."""
    edges = np.cumsum([0] + [basis.vectors.shape[1] for basis in bases])
    for i, (basis, start, stop) in enumerate(zip(bases, edges[:-1], edges[1:], strict=True)):
        U, own = basis.vectors, slice(start, stop)
        change = STRIDE * (np.clip(diagonals[i] - diagonal_of(U, definite[own, own]), 0, diagonals[i]) - left[i])
        change = np.clip(change, -left[i], diagonals[i] - left[i])
        left[i] += change
        rows, coordinates = (slice(None), U.T) if exact else (basis.rows, basis.interpolation)
        computed[own, own] -= (coordinates * change[rows]) @ coordinates.T


def _rounding(dtype: npt.DTypeLike) -> float:
    return max(DEFINITE, _ROUNDINGS * float(np.finfo(dtype).eps))
