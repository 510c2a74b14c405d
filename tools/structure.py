"""Draw docs/structure.svg: a kernel matrix beside the parts of its factorization.

``python -m tools.structure`` writes the picture. All parts are those of a factorization, and not a sketch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

import blockbasis as bb

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "structure.svg"
POINTS, CLUSTERS, RANK, BANDWIDTH = 200, 6, 8, 0.3


def parts() -> dict[str, Any]:
    """Return the kernel matrix in the order of the clusters, and the parts of its factorization, by their names."""
    X = np.random.default_rng(0).uniform(size=(POINTS, 2))
    kernel = bb.Gaussian(BANDWIDTH)
    A = bb.factorize(X, kernel, n_clusters=CLUSTERS, rank=RANK, rng=0)
    order = A.partition.order
    K = bb.ExactKernel(X[order], kernel).todense()
    starts, columns = np.cumsum([0, *A.partition.sizes]), np.cumsum([0, *A.ranks])
    U, C = np.zeros((POINTS, columns[-1])), np.zeros((columns[-1], columns[-1]))
    for i, basis in enumerate(A.bases):
        U[starts[i] : starts[i + 1], columns[i] : columns[i + 1]] = basis
        for j in range(CLUSTERS):
            C[columns[i] : columns[i + 1], columns[j] : columns[j + 1]] = A.inner.block(i, j)
    D = A.todense()[np.ix_(order, order)] - U @ C @ U.T
    return {"K": K, "U": U, "C": C, "Uᵀ": U.T, "D": D}


def draw() -> Figure:
    """Return the figure."""
    found = parts()
    widths = [found[name].shape[1] for name in found]
    figure = Figure((9, 2.9), dpi=100, layout="constrained")
    for axes, (name, values) in zip(figure.subplots(1, 5, width_ratios=widths), found.items(), strict=True):
        shade = np.abs(values) / np.abs(values).max()
        axes.imshow(np.log10(np.maximum(shade, 1e-4)), cmap="Blues", vmin=-4, vmax=0, interpolation="nearest")
        axes.set(xticks=[], yticks=[], anchor="C")
        axes.set_title({"K": "K  ≈", "Uᵀ": "Uᵀ  +"}.get(name, name), fontsize=13)
    return figure


def main() -> None:
    """Write the picture."""
    with rc_context({"svg.hashsalt": "blockbasis", "svg.fonttype": "none"}):
        draw().savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
