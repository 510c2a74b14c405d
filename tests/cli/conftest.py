from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def call(monkeypatch):
    """Runs a command and returns its exit code and everything it printed, in one line."""
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from blockbasis.cli import console
    from blockbasis.cli.app import app

    monkeypatch.setattr(console.stdout, "width", 300)
    monkeypatch.setattr(console.stderr, "width", 300)

    def run(*arguments):
        result = CliRunner().invoke(app, [str(each) for each in arguments])
        return result.exit_code, " ".join(result.output.split())

    return run


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "points.csv"
    X = np.random.default_rng(0).normal(size=(120, 3))
    np.savetxt(path, X, delimiter=",", header="a,b,price", comments="")
    return path


@pytest.fixture
def shells(tmp_path):
    """A file with text, missing values, a date and two targets, one of numbers and one of text."""
    rng = np.random.default_rng(0)
    rows = ["length,sex,found,rings,kind"]
    for i in range(80):
        length, sex = rng.uniform(), "MFI"[rng.integers(3)]
        rings = np.sin(4 * length) + (sex == "I") + 0.05 * rng.normal()
        shown = "" if i % 20 == 3 else f"{length:.4f}"
        rows.append(f"{shown},{sex},2024-0{1 + i % 9}-11,{rings:.4f},{'big' if rings > 0.6 else 'small'}")
    path = tmp_path / "shells.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """Files of a regression, a classification and a factorization, which the tests do not change."""
    import blockbasis as bb
    from blockbasis.tables import Table, fit_table

    folder = tmp_path_factory.mktemp("saved")
    rng = np.random.default_rng(0)
    length, sex = rng.uniform(size=60), np.array(["M", "F", "I"], dtype=object)[rng.integers(3, size=60)]
    rings = np.sin(4 * length) + (sex == "I")
    kind = np.where(rings > 0.6, "big", "small").astype(object)
    table = Table(("length", "sex", "rings", "kind"), (length, sex, rings, kind))
    bb.save(fit_table(table.without("kind"), "rings", seed=0)[0], folder / "rings.bbf")
    bb.save(fit_table(table.without("rings"), "kind", seed=0)[0], folder / "kind.bbf")
    X = rng.normal(size=(60, 2))
    bb.save(bb.factorize(X, bb.Gaussian(2.0), tol=1e-2, rng=0), folder / "a.bbf")
    np.save(folder / "v.npy", rng.normal(size=(60, 2)))
    return folder
