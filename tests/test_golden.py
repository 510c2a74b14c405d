"""Files of this version and of every release before it load, and give the results stored beside them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import blockbasis as bb
from tools import golden

FILES = sorted(golden.FOLDER.glob("*/*.bbf"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_golden_file_loads_and_gives_its_results(path):
    record = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    model = bb.load(path)
    found = golden.results(model, np.array(record["X_new"]))
    assert list(found) == list(record["expected"])
    for name, expected in record["expected"].items():
        if found[name].dtype.kind == "f":
            scale = np.abs(expected).max()
            atol = 1e-9 * scale + largest_rounding(model)
            np.testing.assert_allclose(found[name], expected, rtol=1e-9, atol=atol, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], expected, err_msg=name)


def largest_rounding(model):
    """Rounding of a posterior mean, a sum of terms that cancel: processors add them in different orders."""
    posterior = getattr(model, "_posterior", None)
    if posterior is None:
        return 0.0
    terms = sum(float(np.abs(weights).sum()) for weights in posterior.mean.weights)
    return np.finfo(float).eps * terms * float(np.max(model._scale))


def test_every_kind_has_a_golden_file_of_this_version():
    assert {path.stem for path in FILES if path.parent.name == bb.__version__} == set(golden.cases())
    kinds = {type(bb.load(path)).__name__ for path in FILES}
    savable = {name for name, value in vars(bb).items() if hasattr(value, "describe")}
    assert kinds == savable | {"BlockBasis", "CrossBlockBasis"}


def test_golden_files_are_small():
    assert all(path.stat().st_size <= golden.LARGEST for path in FILES)
