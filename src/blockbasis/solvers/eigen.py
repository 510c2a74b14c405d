"""Leading eigenpairs of a factorization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from blockbasis._utils.linalg import leading_eigenpairs
from blockbasis._utils.validation import check_integer
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.solvers.woodbury import congruent, orthonormalizing, triangular_solve

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Number of Lanczos vectors in excess of twice the number of components: clustered eigenvalues require many.
_SPARE_VECTORS = 40
#: Largest number of points for which the dense matrix is decomposed if the Lanczos iteration does not converge: 32 MB.
_DENSE_POINTS = 2000
#: Difference, relative to the largest eigenvalue, below which two computed eigenvalues count as equal.
_EQUAL = 1e-10


class Eigenpairs(NamedTuple):
    """Eigenvalues and eigenvectors.

    Parameters
    ----------
    values : ndarray of shape (n_components,)
        Eigenvalues in descending order.
    vectors : ndarray of shape (n, n_components)
        Orthonormal eigenvectors with rows in the order of the caller's points. The entry of largest absolute value of
        every vector is positive.
    """

    values: FloatArray
    vectors: FloatArray


def eigh(A: BlockBasis, n_components: int) -> Eigenpairs:
    """Compute the largest eigenvalues of a factorization and their eigenvectors.

    Parameters
    ----------
    A : BlockBasis
        Factorization that `blockbasis.factorize` returns.
    n_components : int
        Number of eigenpairs, at most the number of points. If A has no diagonal part, at most the sum of the ranks: all
        other eigenvalues are zero.

    Returns
    -------
    Eigenpairs
        Named tuple (values, vectors) of float64 arrays.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the Lanczos iteration does not converge for more than 2000 points.

    Notes
    -----
    If A = U C Uᵀ has no diagonal part, its eigenpairs are those of C multiplied by U, from one dense decomposition of
    the size of C. Otherwise ARPACK's Lanczos iteration computes the eigenpairs to working precision. The iteration is
    repeated in the orthogonal complement of the vectors found, so that multiple eigenvalues have their multiplicity.
    It takes longer for more components and for eigenvalues that are closer to each other.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> A = bb.factorize(X, bb.Gaussian(2.0), n_clusters=4, rank=25, diagonal=False, rng=0)
    >>> values, vectors = bb.eigh(A, 3)
    >>> bool(np.allclose(A @ vectors, vectors * values))
    True
    >>> exact = np.linalg.eigvalsh(bb.Gaussian(2.0)(X))[::-1][:3]
    >>> bool(np.allclose(values, exact))
    True
    """
    caller = "eigh"
    if not isinstance(A, BlockBasis):
        raise TypeError(
            f"The 'A' parameter of {caller} must be a BlockBasis, as factorize returns it. Got {type(A).__name__} "
            "instead. Use scipy.sparse.linalg.eigsh for other operators."
        )
    most = int(A.ranks.sum()) if A.diagonal_part is None else A.shape[0]
    count = check_integer(n_components, name="n_components", caller=caller, low=1, high=most)
    values, vectors = _eigenpairs_by_inner(A, count) if A.diagonal_part is None else _eigenpairs_by_products(A, count)
    return Eigenpairs(values, with_signs(vectors))


def _eigenpairs_by_inner(A: BlockBasis, count: int) -> tuple[FloatArray, FloatArray]:
    """Return eigenpairs of U C Uᵀ = Q (R C Rᵀ) Qᵀ, where U = Q R and R is the identity up to rounding."""
    triangles = orthonormalizing(A.basis, np.ones(A.shape[0]))
    values, small = leading_eigenpairs(congruent(A.inner, triangles), count)
    return values, A.basis.expand(triangular_solve(triangles, small))


def _eigenpairs_by_products(A: BlockBasis, count: int) -> tuple[FloatArray, FloatArray]:
    """Return eigenpairs of U C Uᵀ + D by Lanczos iteration, or by a dense decomposition if that is cheaper."""
    n = A.shape[0]
    if 2 * count + 1 >= n:  # the Lanczos iteration would store n vectors, as many as the dense matrix has
        return leading_eigenpairs(A._apply(np.eye(n)), count)
    try:
        return _multiple_eigenpairs(A, count)
    except np.linalg.LinAlgError:
        if n > _DENSE_POINTS:
            raise
        return leading_eigenpairs(A._apply(np.eye(n)), count)


def _multiple_eigenpairs(A: BlockBasis, count: int) -> tuple[FloatArray, FloatArray]:
    """Return leading eigenpairs by Lanczos iteration, multiple eigenvalues with their multiplicity."""
    n = A.shape[0]
    rng = np.random.default_rng(0)
    values, vectors = _lanczos(A, count, np.empty((n, 0)), rng)
    # The Krylov space of one vector has one vector of each eigenspace: the orthogonal complement is searched, too.
    for _ in range(count):
        other, vector = _lanczos(A, 1, vectors, rng)
        if other[0] <= values[count - 1] + _EQUAL * values[0]:
            break
        values, vectors = np.append(values, other), np.hstack((vectors, vector))
        order = np.argsort(-values, kind="stable")
        values, vectors = values[order], vectors[:, order]
    return values[:count], vectors[:, :count]


def _lanczos(A: BlockBasis, count: int, known: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenpairs, descending, in the orthogonal complement of the known eigenvectors."""
    n = A.shape[0]

    def complement(v: FloatArray) -> FloatArray:
        return np.asarray(v - known @ (known.T @ v))

    def product(v: Any) -> FloatArray:
        return complement(A._apply(complement(v.reshape(n, 1))))[:, 0]

    start = complement(rng.standard_normal(n))
    if not product(start).any():  # A is zero on the complement, and ARPACK fails for a zero matrix
        others = np.column_stack((start, complement(rng.standard_normal((n, count - 1)))))
        return np.zeros(count), np.linalg.qr(others)[0]
    operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
    try:
        width = min(n, 2 * count + _SPARE_VECTORS)
        values, vectors = eigsh(operator, k=count, which="LA", v0=start, ncv=width)
    except ArpackNoConvergence as error:
        raise np.linalg.LinAlgError(
            f"Only {len(error.eigenvalues)} of {count} eigenpairs converged: the eigenvalues are too close to each "
            "other. Give fewer n_components, or factorize with diagonal=False, which needs no iteration."
        ) from error
    return values[::-1], vectors[:, ::-1]


def with_signs(vectors: FloatArray) -> FloatArray:
    """Return the columns with signs for which the entry of largest absolute value of each column is positive."""
    largest = np.abs(vectors).argmax(axis=0)
    return np.asarray(vectors * np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0))
