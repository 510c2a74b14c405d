"""Leading eigenpairs of a factorization: of K(X, X), as far as it is one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from blockbasis._utils.linalg import leading_eigenpairs
from blockbasis._utils.typing import FloatArray
from blockbasis._utils.validation import check_integer
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.solvers.woodbury import congruent, orthonormalizing, triangular_solve

#: Lanczos vectors beyond twice the wanted ones: eigenvalues close to each other take many.
_SPARE_VECTORS = 40
#: Up to so many points the dense matrix is decomposed where the iteration does not converge.
_FEW_POINTS = 2000
#: Eigenvalues that differ by less than this share of the largest are one.
_SAME = 1e-10


class Eigenpairs(NamedTuple):
    """Eigenvalues and eigenvectors.

    Parameters
    ----------
    values : ndarray of shape (n_components,)
        Descending.
    vectors : ndarray of shape (n, n_components)
        Orthonormal columns in the order of the caller's points; the entry of largest modulus is positive in each.
    """

    values: FloatArray
    vectors: FloatArray


def eigh(A: BlockBasis, n_components: int) -> Eigenpairs:
    """Eigenpairs of the largest eigenvalues of a factorization.

    Without D they are those of C, carried over by U: exact, at the cost of a small dense decomposition. With D they
    come from Lanczos iteration (ARPACK) with products of A, to working precision, repeated until nothing larger is
    left: an eigenvalue comes as often as it is repeated. The more of them are asked for, and the less they differ, the
    longer it takes. All in float64.

    Parameters
    ----------
    A : BlockBasis
    n_components : int
        At most the number of points; without D at most the sum of the ranks, because all other eigenvalues are zero.

    Returns
    -------
    Eigenpairs
        The named tuple (values, vectors).

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
            "instead. For other operators: scipy.sparse.linalg.eigsh."
        )
    most = int(A.ranks.sum()) if A.diagonal_part is None else A.shape[0]
    count = check_integer(n_components, name="n_components", caller=caller, low=1, high=most)
    values, vectors = _of_inner(A, count) if A.diagonal_part is None else _of_products(A, count)
    return Eigenpairs(values, with_signs(vectors))


def _of_inner(A: BlockBasis, count: int) -> tuple[FloatArray, FloatArray]:
    """U C Uᵀ = Q (R C Rᵀ) Qᵀ with U = Q R, and R the identity up to the rounding of U."""
    triangles = orthonormalizing(A.basis, np.ones(A.shape[0]))
    values, small = leading_eigenpairs(congruent(A.inner, triangles), count)
    return values, A.basis.expand(triangular_solve(triangles, small))


def _of_products(A: BlockBasis, count: int) -> tuple[FloatArray, FloatArray]:
    n = A.shape[0]
    if 2 * count + 1 >= n:  # Lanczos iteration would keep n vectors, as many as the dense matrix has
        return leading_eigenpairs(A._apply(np.eye(n)), count)
    try:
        return _of_lanczos(A, count)
    except np.linalg.LinAlgError:
        if n > _FEW_POINTS:
            raise
        return leading_eigenpairs(A._apply(np.eye(n)), count)


def _of_lanczos(A: BlockBasis, count: int) -> tuple[FloatArray, FloatArray]:
    """Leading eigenpairs by Lanczos iteration, each as often as it is repeated."""
    n = A.shape[0]
    rng = np.random.default_rng(0)
    values, vectors = _lanczos(A, count, np.empty((n, 0)), rng)
    # One starting vector shows one vector of each eigenspace: what is left must have no larger eigenvalue.
    for _ in range(count):
        other, vector = _lanczos(A, 1, vectors, rng)
        if other[0] <= values[count - 1] + _SAME * values[0]:
            break
        values, vectors = np.append(values, other), np.hstack((vectors, vector))
        order = np.argsort(-values, kind="stable")
        values, vectors = values[order], vectors[:, order]
    return values[:count], vectors[:, :count]


def _lanczos(A: BlockBasis, count: int, known: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Eigenpairs of the largest eigenvalues among vectors orthogonal to eigenvectors that are known, descending."""
    n = A.shape[0]

    def rest(v: FloatArray) -> FloatArray:
        return np.asarray(v - known @ (known.T @ v))

    def product(v: Any) -> FloatArray:
        return rest(A._apply(rest(v.reshape(n, 1))))[:, 0]

    start = rest(rng.standard_normal(n))
    if not product(start).any():  # nothing but zeros is left, which ARPACK refuses
        others = np.column_stack((start, rest(rng.standard_normal((n, count - 1)))))
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
    """The columns, each with the sign that makes its entry of largest modulus positive."""
    largest = np.abs(vectors).argmax(axis=0)
    return np.asarray(vectors * np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0))
