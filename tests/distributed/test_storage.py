from __future__ import annotations

import json

import numpy as np
import pytest

da = pytest.importorskip("dask.array")
import blockbasis as bb  # noqa: E402
from blockbasis.distributed import factorize, load  # noqa: E402


@pytest.fixture
def saved(client, points, small_sample, tmp_path):
    A = factorize(da.from_array(points[0], chunks=(1000, 2)), bb.Gaussian(1.5), client, n_clusters=6, rank=20, rng=0)
    A.save(tmp_path / "factors")
    return A, tmp_path / "factors"


def test_a_saved_factorization_is_the_same(saved, client, points):
    A, folder = saved
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["functions.bbf", "manifest.json", *(f"part-{i:05d}.bbf" for i in range(3))]
    B = load(folder, client)
    assert B.error_estimate == A.error_estimate and B.dtype == A.dtype
    np.testing.assert_allclose(B @ points[1], A @ points[1], atol=1e-12)
    np.testing.assert_allclose(B.extend(points[0][:5]) @ points[1], A.extend(points[0][:5]) @ points[1], atol=1e-12)


def test_without_a_manifest_nothing_is_read(saved, client):
    _, folder = saved
    (folder / "manifest.json").unlink()
    with pytest.raises(bb.StorageError, match="has no manifest"):
        load(folder, client)


def test_a_part_that_is_truncated_or_of_others_is_refused(saved, client):
    _, folder = saved
    part = folder / "part-00001.bbf"
    data = part.read_bytes()
    part.write_bytes(data[: len(data) // 2])
    with pytest.raises(bb.StorageError, match="part-00001"):
        load(folder, client)
    part.write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"lengths": [1000, 999, 1001]}))
    with pytest.raises(bb.StorageError, match="of 999 points, as in the manifest"):
        load(folder, client)
