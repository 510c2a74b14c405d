"""The suites: each a module with `TITLE`, `cells`, `run`, `line`, `verdicts` and `tables`."""

from suites import accuracy, budget, cores, engine, entries, extend, grid, peers, product, scale, streams, workers

SUITES = {
    "engine": engine,
    "scale": scale,
    "cores": cores,
    "entries": entries,
    "product": product,
    "extend": extend,
    "grid": grid,
    "accuracy": accuracy,
    "budget": budget,
    "peers": peers,
    "streams": streams,
    "workers": workers,
}

#: Of the time given to a run, how much a suite may take beside the others.
SHARES = {
    "engine": 4,
    "scale": 3,
    "cores": 2,
    "entries": 2,
    "product": 1,
    "extend": 1,
    "grid": 3,
    "accuracy": 2,
    "budget": 1,
    "peers": 3,
    "streams": 2,
    "workers": 3,
}
