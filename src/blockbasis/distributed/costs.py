"""What a computation on workers costs: bytes moved and kept, and seconds, stage by stage.

The constants of seconds were measured on one core of 2 to 3 GHz with AVX-512; those of bytes follow from the data
structures. ``benchmarks/run.py workers`` compares the bytes with what the workers report.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockbasis.streaming.factorization import sample_counts

#: Bytes of a float, and of the variance and the place in the order of a point.
_FLOAT = 8
_PER_POINT = 16
#: Landmarks of a cluster for each basis function.
_LANDMARKS = 8
#: Seconds of a kernel entry, and more for each column; multiplications and additions of a large product in a second.
_ENTRY, _ENTRY_COLUMN = 3.5e-9, 3e-11
_OPERATIONS = 5e10
#: Seconds of the bases for each row of the sample, over the squared rank.
_BASES = 4e-8


@dataclass(frozen=True)
class Costs:
    """Costs of `blockbasis.distributed` by stage, as `predicted_costs` returns them.

    Parameters
    ----------
    moved : dict
        Bytes that workers receive from other workers: of ``factorize``, of which ``bases`` is a part, ``product``,
        ``solve`` and ``fit``.
    collected : dict
        Bytes that this process receives from the workers.
    kept : dict
        Bytes that one place holds: a ``worker`` with its part of U, a worker while it ``sums``, this process with the
        ``sample``, and with ``C`` and its factorization.
    seconds : dict
        Of the stages: ``bases``, ``evaluate`` and ``gram`` on each worker, at the same time, ``solve`` in this process.
    """

    moved: dict[str, float]
    collected: dict[str, float]
    kept: dict[str, float]
    seconds: dict[str, float]

    def first_to_break(self, memory: float = 16e9, seconds: float = 3600.0) -> tuple[str, float]:
        """Return the term that exceeds a machine first, and how many times it fills the limit.

        Parameters
        ----------
        memory : float, default=16e9
            Bytes of a worker and of this process.
        seconds : float, default=3600.0
            Time that a stage may take.

        Examples
        --------
        >>> from blockbasis.distributed import predicted_costs
        >>> predicted_costs(10**9, 32, 20_000, 60, 1_000).first_to_break()[0]
        'seconds of solve'
        """
        shares = {f"bytes of {name}": value / memory for name, value in self.kept.items()}
        shares |= {f"seconds of {name}": value / seconds for name, value in self.seconds.items()}
        name = max(shares, key=lambda each: shares[each])
        return name, shares[name]


def predicted_costs(
    n: int, d: int, n_clusters: int, rank: int, n_workers: int, *, n_targets: int = 1, itemsize: int = 8
) -> Costs:
    """Return what a factorization, a product, a solution and a ridge regression of n points cost.

    Parameters
    ----------
    n, d : int
        Points and columns.
    n_clusters, rank : int
        Clusters, and basis functions of each.
    n_workers : int
        Workers of one thread.
    n_targets : int, default=1
        Columns of vectors and targets.
    itemsize : int, default=8
        Bytes of an entry of U.

    Returns
    -------
    Costs

    Notes
    -----
    With R = k r and t targets, a copy of the functions is F = 8 k (m (d + r) + d + r²) bytes for m = 8 r landmarks, a
    vector of the size of C is 8 R t, and the sums of a regression are S = 8 (k r² + R (t + 1)). The sample of s rows
    goes to all W workers twice, 8 s (2 d + 1) bytes: for the bases, and, with 8 k r (m + r) bytes of pseudo-inverses,
    for C. The functions go to all workers too, and vectors and sums are added over them: W - 1 copies of each move,
    whatever n is.

    Examples
    --------
    >>> from blockbasis.distributed import predicted_costs
    >>> small, large = (predicted_costs(n, 8, 100, 60, 4) for n in (10**5, 10**8))
    >>> small.moved == large.moved
    True
    >>> round(large.kept["worker"] / 1e9, 1)
    12.4
    """
    R, m, others = n_clusters * rank, _LANDMARKS * rank, n_workers - 1
    functions = _FLOAT * n_clusters * (m * (d + rank) + d + rank**2)
    vector, sums = _FLOAT * R * n_targets, _FLOAT * (n_clusters * rank**2 + R * (n_targets + 1))
    determining, sampled, own = sample_counts(n)[0], sum(sample_counts(n)), n / n_workers
    for_bases = _FLOAT * (determining * (2 * d + 1) + n_clusters * rank * (m + rank))
    of_bases = _FLOAT * (determining * rank + n_clusters * m * rank + R**2 / 2)
    evaluation = m * (_ENTRY + _ENTRY_COLUMN * d) + 2 * (m * rank + rank**2) / _OPERATIONS
    return Costs(
        moved={
            "bases": others * for_bases,
            "factorize": others * (for_bases + functions),
            "product": others * 2 * vector,
            "solve": others * (sums + 3 * vector),
            "fit": others * (for_bases + functions + sums),
        },
        collected={
            "factorize": _FLOAT * sampled * d + of_bases,
            "product": vector,
            "solve": sums + vector,
            "fit": _FLOAT * sampled * d + of_bases + sums,
        },
        kept={
            "worker": own * (itemsize * rank + _PER_POINT) + functions,
            "sums": 8 * sums,
            "sample": sampled * _FLOAT * (d + rank),
            "C": 2 * _FLOAT * R**2,
        },
        seconds={
            "bases": determining * rank**2 * _BASES / n_workers,
            "evaluate": own * evaluation,
            "gram": own * 2 * rank**2 / _OPERATIONS,
            "solve": (R**3 / 3 + R**2 * rank) * 2 / _OPERATIONS,
        },
    )
