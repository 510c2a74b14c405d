"""Figures of a factorization: clusters and ranks, blocks of C, spectra, memory and times.

Each function draws into the given matplotlib axes, or into new ones, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis.report.figures import COLOURS, new_axes, style

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.operators.block_basis import BlockBasis

#: Clusters whose spectra are drawn.
_SPECTRA = 5
#: Block norms below this share of the largest are drawn as this share.
_FLOOR = 1e-6


def clusters_and_ranks(A: BlockBasis, *, axes: Any = None) -> Any:
    """Draw the rank of each cluster against its number of points.

    Parameters
    ----------
    A : BlockBasis
    axes : matplotlib.axes.Axes, default=None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.report.structure_figures import clusters_and_ranks
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> axes = clusters_and_ranks(bb.factorize(X, bb.Gaussian(1.0), n_clusters=4, rank=10, rng=0))
    >>> axes.get_xlabel()
    'points of the cluster'
    """
    axes = new_axes(axes)
    axes.plot(A.partition.sizes, A.ranks, linestyle="none", marker="o", ms=5, alpha=0.7, color=COLOURS[0])
    axes.set(xlabel="points of the cluster", ylabel="rank", xlim=(0, None), ylim=(0, None))
    return axes


def block_norms(A: BlockBasis) -> FloatArray:
    """Return the Frobenius norm of each block of C, of shape (n_clusters, n_clusters); 0 for blocks not stored."""
    norms = np.zeros((A.n_clusters, A.n_clusters))
    for i, columns in enumerate(A.inner.kept):
        for j in columns.tolist():
            norms[i, j] = norms[j, i] = np.linalg.norm(A.inner.block(i, j))
    return norms


def block_map(A: BlockBasis, *, axes: Any = None) -> Any:
    """Draw the norms of the blocks of C as a map; blocks that are not stored are left blank.

    Parameters
    ----------
    A : BlockBasis
    axes : matplotlib.axes.Axes, default=None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.report.structure_figures import block_map
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> block_map(bb.factorize(X, bb.Gaussian(1.0), n_clusters=4, rank=10, rng=0)).get_xlabel()
    'cluster'
    """
    axes = new_axes(axes)
    norms = block_norms(A)
    top = max(float(norms.max()), np.finfo(float).tiny)
    shown = np.ma.masked_equal(norms, 0)
    logs = np.log10(np.maximum(shown / top, _FLOOR))
    axes.set_facecolor("none")
    image = axes.imshow(logs, cmap="cividis", vmin=min(float(logs.min()), -1.0), vmax=0, interpolation="nearest")
    axes.grid(False)
    axes.set(xlabel="cluster", ylabel="cluster")
    bar = axes.figure.colorbar(image, ax=axes, label="norm, relative to the largest")
    ticks = [tick for tick in bar.get_ticks() if tick == round(tick) and image.norm.vmin <= tick <= 0]
    bar.set_ticks(ticks, labels=[f"1e{round(tick)}" if tick else "1" for tick in ticks])
    return axes


def some_spectra(A: BlockBasis) -> dict[int, FloatArray]:
    """Return the positive eigenvalues of the diagonal blocks of C, descending, by cluster.

    Of many clusters, five are chosen, from the largest to the smallest rank.
    """
    order = np.argsort(-A.ranks, kind="stable")
    chosen = order[np.unique(np.linspace(0, len(order) - 1, _SPECTRA).round().astype(int))]
    values = {i: np.linalg.eigvalsh(A.inner.block(i, i).astype(np.float64))[::-1] for i in chosen.tolist()}
    return {i: own[own > 0] for i, own in values.items()}


def spectra(A: BlockBasis, *, axes: Any = None) -> Any:
    """Draw the eigenvalues of the diagonal blocks of C, for clusters from the largest to the smallest rank.

    Parameters
    ----------
    A : BlockBasis
    axes : matplotlib.axes.Axes, default=None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.report.structure_figures import spectra
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> len(spectra(bb.factorize(X, bb.Gaussian(1.0), n_clusters=4, rank=10, rng=0)).lines)
    4
    """
    axes = new_axes(axes)
    for place, (i, values) in enumerate(some_spectra(A).items()):
        look = style(place) | {"marker": "none"}
        axes.plot(np.arange(1, len(values) + 1), values, **look, label=f"cluster {i}, rank {A.ranks[i]}")
    axes.set(yscale="log", xlabel="number of the eigenvalue", ylabel="eigenvalue")
    axes.legend(frameon=False, fontsize="small")
    return axes


def memory_parts(A: BlockBasis) -> dict[str, int]:
    """Return the bytes of the parts of a factorization, and of the dense matrix."""
    n, item = A.shape[0], A.dtype.itemsize
    diagonal = 0 if A.diagonal_part is None else n * item
    rest = A.nbytes - A.basis.nbytes - A.inner.nbytes - diagonal
    return {
        "bases U": A.basis.nbytes,
        "inner matrix C": A.inner.nbytes,
        "diagonal D": diagonal,
        "clusters and landmarks": rest,
        "all of it": A.nbytes,
        "dense matrix": item * n**2,
    }


def memory_bars(A: BlockBasis, *, axes: Any = None) -> Any:
    """Draw the memory of the parts of a factorization beside that of the dense matrix, on a logarithmic axis.

    Parameters
    ----------
    A : BlockBasis
    axes : matplotlib.axes.Axes, default=None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.report.structure_figures import memory_bars
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> memory_bars(bb.factorize(X, bb.Gaussian(1.0), n_clusters=4, rank=10, rng=0)).get_xlabel()
    'megabytes'
    """
    axes = new_axes(axes)
    parts = {name: count / 1e6 for name, count in memory_parts(A).items() if count}
    places = np.arange(len(parts))[::-1]
    colours = [COLOURS[1] if name == "dense matrix" else COLOURS[0] for name in parts]
    axes.barh(places, list(parts.values()), color=colours)
    axes.set_yticks(places, list(parts))
    axes.set(xscale="log", xlabel="megabytes")
    axes.grid(False, axis="y")
    return axes


def stage_bars(seconds: Mapping[str, float], *, axes: Any = None) -> Any:
    """Draw the seconds of each stage as bars.

    Parameters
    ----------
    seconds : mapping of str to float
    axes : matplotlib.axes.Axes, default=None

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from blockbasis.report.structure_figures import stage_bars
    >>> len(stage_bars({"plan": 1.0, "bases": 2.0}).patches)
    2
    """
    axes = new_axes(axes)
    places = np.arange(len(seconds))[::-1]
    axes.barh(places, list(seconds.values()), color=COLOURS[2])
    axes.set_yticks(places, list(seconds))
    axes.set(xlabel="seconds", xlim=(0, None))
    axes.grid(False, axis="y")
    return axes
