from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.streaming import ArrayRows, ChunkRows, ParquetRows
from blockbasis.streaming.api import sample_goal

KERNEL = bb.Gaussian(2.0)


def error(A, X):
    exact = KERNEL(X)
    return np.linalg.norm(A.todense() - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize("kind", ["memmap", "parquet", "chunks"])
def test_rows_on_disk_are_factorized_within_the_tolerance(kind, points, on_disk, parquet, small_sample):
    rows = {
        "memmap": on_disk,
        "parquet": ParquetRows(parquet, columns=["a", "b", "c"]),
        "chunks": ChunkRows(np.array_split(points, 11), len(points)),
    }[kind]
    A = bb.factorize(rows, KERNEL, tol=1e-2, rng=0)
    assert error(A, points) < 1e-2
    assert abs(A.error_estimate.value / error(A, points) - 1) < 0.25


def test_the_source_does_not_matter(points, on_disk, parquet, small_sample):
    A = bb.factorize(on_disk, KERNEL, n_clusters=6, rank=20, rng=0)
    B = bb.factorize(ParquetRows(parquet, columns=["a", "b", "c"]), KERNEL, n_clusters=6, rank=20, rng=0)
    np.testing.assert_allclose(A.todense(), B.todense(), atol=1e-12)
    assert A.shape == (3000, 3000) and A.n_clusters == 6 and A.ranks.tolist() == [20] * 6


def test_few_rows_determine_the_functions_all_together(points):
    A = bb.factorize(ArrayRows(points), KERNEL, n_clusters=6, rank=20, rng=0)
    assert A.shape == (3000, 3000) and error(A, points) < 2 * error(
        bb.factorize(points, KERNEL, n_clusters=6, rank=20, diagonal=False, rng=0), points
    )
    small = np.ascontiguousarray(points[:50])
    assert error(bb.factorize(ArrayRows(small), KERNEL, tol=1e-2, rng=0), small) < 1e-2


def test_a_budget_is_kept(on_disk, small_sample):
    A = bb.factorize(on_disk, KERNEL, memory=3000 * 30, rng=0)
    assert A.stored <= 1.25 * 3000 * 30


def test_workspace_diagonal_and_dtype(points, on_disk, small_sample, tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    A = bb.factorize(on_disk, KERNEL, tol=3e-2, diagonal=True, dtype=np.float32, workspace=folder, rng=0)
    assert A.dtype == np.float32 and A.diagonal_part is not None and list(folder.iterdir()) == []
    assert error(A, points) < 3e-2


def test_white_noise_is_on_the_diagonal(points, on_disk, small_sample):
    A = bb.factorize(on_disk, KERNEL + bb.White(0.5), n_clusters=6, rank=20, rng=0)
    np.testing.assert_allclose(A.diagonal_part, 0.5)


def test_a_factorization_of_rows_on_disk_solves(points, on_disk, small_sample):
    A = bb.factorize(on_disk, KERNEL, tol=1e-2, rng=0)
    y = np.sin(points[:, 0])
    solution = bb.solve(A, y, ridge=0.1)
    np.testing.assert_allclose(A @ solution.x + 0.1 * solution.x, y, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "value"), [("partition", "random"), ("algorithm", "paper"), ("inner", "exact"), ("cutoff", 1e-3)]
)
def test_what_needs_all_points_is_refused(name, value, on_disk, small_sample):
    with pytest.raises(ValueError, match=f"'{name}' parameter of factorize must be left out for rows on disk"):
        bb.factorize(on_disk, KERNEL, **{name: value})


def test_goals_of_the_sample(small_sample, monkeypatch):
    monkeypatch.setattr("blockbasis.streaming.factorization.SAMPLE_ROWS", 1000)
    goal = dict.fromkeys(("tol", "memory", "rank", "ridge", "n_clusters"))
    assert sample_goal(goal, 4000, 8)["tol"] == pytest.approx(0.95e-3)
    assert sample_goal(goal | {"memory": 40_000}, 4000, 8)["memory"] == 10_000
    assert sample_goal(goal | {"memory": "352KB"}, 4000, 8)["memory"] == "80000B"
    assert sample_goal(goal | {"rank": 10}, 4000, 8)["n_clusters"] > 1
