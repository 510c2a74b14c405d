"""Exact bases with an exact inner matrix, from the dense kernel matrix: the best that given clusters and ranks allow.

Computed here by itself, with nothing of the package but the kernel's values.
"""

from __future__ import annotations

import numpy as np

import blockbasis as bb

#: How often the basis is rebuilt from the matrix less its diagonal part.
ROUNDS = 3
#: Above this many points the matrix is held in float32.
SINGLE = 5_000


def dense(X: np.ndarray, kernel: bb.Gaussian) -> np.ndarray:
    """The kernel matrix, strip by strip."""
    X = X.astype(np.float32 if len(X) > SINGLE else np.float64)
    K = np.empty((len(X), len(X)), dtype=X.dtype)
    for rows in strips(len(X)):
        K[rows] = kernel(X[rows], X)
    np.fill_diagonal(K, 1)
    return K


def strips(n: int, size: int = 1_000) -> list[slice]:
    return [slice(a, min(a + size, n)) for a in range(0, n, size)]


def operator_error(A: bb.BlockBasis, K: np.ndarray) -> float:
    """Relative error of a factorization of the same points, in the same order, against the dense matrix."""
    error = norm = 0.0
    for columns in strips(len(K)):
        unit = np.zeros((len(K), columns.stop - columns.start))
        unit[np.arange(columns.start, columns.stop), np.arange(unit.shape[1])] = 1
        exact = K[:, columns].astype(np.float64)
        norm += float(np.einsum("ij,ij->", exact, exact))
        exact -= A @ unit
        error += float(np.einsum("ij,ij->", exact, exact))
    return float(np.sqrt(error / norm))


def semidefinite(M: np.ndarray) -> np.ndarray:
    """A symmetric matrix without its negative eigenvalues."""
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    return (vectors * np.maximum(values, 0)) @ vectors.T


class Reference:
    """Exact bases and inner matrix over clusters that lie in one piece.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The matrix, in the order of the clusters; written to while the object works, and restored.
    sizes : ndarray
        Of the clusters.
    rng : Generator
    """

    def __init__(self, K: np.ndarray, sizes: np.ndarray, rng: np.random.Generator) -> None:
        ends = np.cumsum(sizes)
        self._clusters = [slice(int(b - s), int(b)) for s, b in zip(sizes, ends, strict=True)]
        self._K, self._rng = K, rng
        self._norm = sum(float(np.einsum("ij,ij->", K[c], K[c], dtype=np.float64)) for c in self._clusters)

    def errors(self, ranks: tuple[int, ...], *, diagonal: bool) -> dict[int, float]:
        """Error at each rank; without D the bases of smaller ranks are nested."""
        if diagonal:
            return {rank: self._error_of(self._bases(rank, diagonal=True)) for rank in ranks}
        bases = self._bases(max(ranks), diagonal=False)
        return {rank: self._error_of([(U[:, :rank], None) for U, _ in bases]) for rank in ranks}

    def _error_of(self, pieces: list[tuple[np.ndarray, np.ndarray | None]]) -> float:
        bases = [U for U, _ in pieces]
        parts = [d for _, d in pieces if d is not None]
        d = np.concatenate(parts) if parts else None
        C = self._inner(bases, d)
        if d is None:
            return self._error(bases, C, None)
        C = semidefinite(C)  # as the factorization's is
        offsets = _offsets(bases)
        own = [C[a:b, a:b] for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
        held = [np.einsum("ij,ij->i", U @ c, U) for U, c in zip(bases, own, strict=True)]
        return self._error(bases, C, np.clip(1 - np.concatenate(held), 0, 1))

    def _error(self, bases: list[np.ndarray], C: np.ndarray, d: np.ndarray | None) -> float:
        offsets, dtype = _offsets(bases), self._K.dtype
        error = 0.0
        for i, (U, rows) in enumerate(zip(bases, self._clusters, strict=True)):
            strip = (U @ C[offsets[i] : offsets[i + 1]]).astype(dtype)
            for j, (V, columns) in enumerate(zip(bases, self._clusters, strict=True)):
                difference = self._K[rows, columns] - strip[:, offsets[j] : offsets[j + 1]] @ V.T.astype(dtype)
                if i == j and d is not None:
                    difference[np.diag_indices(len(U))] -= d[rows]
                error += float(np.einsum("ij,ij->", difference, difference, dtype=np.float64))
        return float(np.sqrt(error / self._norm))

    def _bases(self, rank: int, *, diagonal: bool) -> list[tuple[np.ndarray, np.ndarray | None]]:
        return [self._basis(rows, rank, diagonal) for rows in self._clusters]

    def _basis(self, rows: slice, rank: int, diagonal: bool) -> tuple[np.ndarray, np.ndarray | None]:
        M = self._K[rows]
        d = np.zeros(len(M))
        if len(M) <= rank:
            return np.eye(len(M), dtype=M.dtype), d if diagonal else None
        at = np.arange(len(M)), np.arange(rows.start, rows.stop)
        start = self._rng.standard_normal((M.shape[1], min(rank + 20, len(M)))).astype(M.dtype)
        Q = _range(M, np.linalg.qr(M @ start)[0], 3)
        for _ in range(ROUNDS if diagonal else 0):
            U = _leading(M, Q, rank)
            M[at] = 1
            whole = U.T @ M[:, rows] @ U
            for _ in range(20):
                core = semidefinite(whole - (U.T * d) @ U)
                d = np.clip(1 - np.einsum("ij,ij->i", U @ core, U), 0, 1)
            M[at] = 1 - d
            Q = _range(M, Q, 2)
        U = _leading(M, Q, rank)
        M[at] = 1
        return U, d if diagonal else None

    def _inner(self, bases: list[np.ndarray], d: np.ndarray | None) -> np.ndarray:
        found = []
        for U, rows in zip(bases, self._clusters, strict=True):
            left = U.T @ self._K[rows]
            if d is not None:
                left[:, rows] -= U.T * d[rows]
            pairs = zip(bases, self._clusters, strict=True)
            found.append(np.concatenate([left[:, columns] @ V for V, columns in pairs], axis=1))
        return np.concatenate(found)


def _offsets(bases: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(([0], np.cumsum([U.shape[1] for U in bases])))


def _range(M: np.ndarray, Q: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        Q = np.linalg.qr(M @ (M.T @ Q))[0]
    return Q


def _leading(M: np.ndarray, Q: np.ndarray, rank: int) -> np.ndarray:
    R = np.linalg.qr(M.T @ Q, mode="r")
    return (Q @ np.linalg.svd(R.T)[0])[:, :rank]
