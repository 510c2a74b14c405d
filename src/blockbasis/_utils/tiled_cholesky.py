"""Cholesky factors and diagonals of inverses of large matrices, computed by several threads.

BLAS with several threads changes the last bits of a result. Here, every thread computes whole tiles with one BLAS
thread each, and the tiles do not depend on the number of threads: neither does the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from blockbasis._utils.parallel import map_threads
from blockbasis._utils.tiling import ranges

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Rows of a tile. Smaller tiles are slower to multiply; of larger ones there are too few for several threads.
_TILE = 384


def factorize_in_place(M: FloatArray, n_jobs: int) -> FloatArray:
    """Overwrite the lower triangle of M with its Cholesky factor, and return M.

    Parameters
    ----------
    M : ndarray of shape (n, n)
        Symmetric, in Fortran order. Only the lower triangle is used. The entries above the diagonal are not valid
        afterwards.
    n_jobs : int
        Number of threads.

    Raises
    ------
    LinAlgError
        If M is not positive definite up to rounding errors.
    """
    potrf, trtri = linalg.get_lapack_funcs(("potrf", "trtri"), (M,))
    upper, tiles = M.T, ranges(0, len(M), _TILE)  # rows of M.T are contiguous
    for position, own in enumerate(tiles):
        factor, failed = potrf(M[own, own], lower=True, clean=True)
        if failed:
            raise linalg.LinAlgError("the matrix is not positive definite")
        M[own, own] = factor
        inverse = trtri(factor, lower=True)[0]

        def solve(columns: slice, own: slice = own, inverse: FloatArray = inverse) -> None:
            upper[own, columns] = inverse @ upper[own, columns]

        def update(rows: slice, own: slice = own) -> None:
            upper[rows, rows.start :] -= upper[own, rows].T @ upper[own, rows.start :]

        remaining = [(tile,) for tile in tiles[position + 1 :]]
        map_threads(solve, remaining, n_jobs)
        map_threads(update, remaining, n_jobs)
    return M


def inverse_diagonal(factor: FloatArray, n_jobs: int) -> FloatArray:
    """Return the diagonal of (L Lᵀ)⁻¹: the squared norms of the columns of L⁻¹.

    Parameters
    ----------
    factor : ndarray of shape (n, n)
        L; only its lower triangle is used.
    n_jobs : int
        Number of threads.
    """
    (trtri,) = linalg.get_lapack_funcs(("trtri",), (factor,))
    tiles = ranges(0, len(factor), _TILE)
    inverses = [trtri(factor[own, own], lower=True)[0] for own in tiles]

    def norms(position: int) -> FloatArray:
        """Squared norms of some columns of L⁻¹, by forward substitution."""
        first = tiles[position].start
        columns = np.empty((len(factor) - first, len(inverses[position])), dtype=factor.dtype)
        columns[: len(inverses[position])] = np.tril(inverses[position])
        for own, inverse in list(zip(tiles, inverses, strict=True))[position + 1 :]:
            above = slice(0, own.start - first)
            known = factor[own, first : own.start] @ columns[above]
            columns[own.start - first : own.stop - first] = -(np.tril(inverse) @ known)
        return np.asarray(np.einsum("ij,ij->j", columns, columns))

    return np.concatenate(map_threads(norms, [(position,) for position in range(len(tiles))], n_jobs))
