"""The suites: each a module with `TITLE`, `cells`, `run`, `line`, `verdicts` and `tables`."""

from suites import accuracy, budget, cores, engine, entries, extend, grid, peers, product, scale

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
}
