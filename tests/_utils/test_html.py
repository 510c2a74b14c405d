from __future__ import annotations

import numpy as np

import blockbasis as bb
from blockbasis._utils.html import summary_table


def test_text_is_escaped():
    assert summary_table("a < b", {"<x>": "1 & 2"}) == (
        '<table style="text-align: left"><caption>a &lt; b</caption>'
        '<tr><th scope="row">&lt;x&gt;</th><td>1 &amp; 2</td></tr></table>'
    )


def test_objects_have_a_summary_for_notebooks():
    X = np.random.default_rng(0).normal(size=(300, 2))
    A = bb.factorize(X, bb.Gaussian(1.0), tol=0.05, rng=0)
    shown = A._repr_html_()
    assert "300 x 300" in shown
    assert f"{A.error_estimate.value:.2e}" in shown
    assert "relative error" not in bb.factorize(X, bb.Gaussian(1.0), n_clusters=3, rank=5, rng=0)._repr_html_()
    assert "predicted error" in bb.plan(X, bb.Gaussian(1.0), tol=0.05, rng=0)._repr_html_()
    model = bb.KernelRidge(0.1, bandwidth=1.0).fit(X, X[:, 0])
    assert "KernelRidge" in model._repr_html_()
