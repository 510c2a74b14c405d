"""Draw docs/architecture.svg: the way of a value through the package, and the imports between its packages.

``python -m tools.architecture`` writes the picture. The arrows between packages come from the import graph; the
position of a package on the picture is in `PACKAGES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from tools.walk import ROOT, imports

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "architecture.svg"


@dataclass(frozen=True)
class Package:
    """A box of the picture: its column and row, its colour, and two short lines about its content."""

    column: float
    row: int
    colour: str
    lines: tuple[str, str]


@dataclass(frozen=True)
class Stage:
    """A step in the way of a value: what it gives, the package that does it, and the file to open."""

    value: str
    package: str
    file: str


GREY, BLUE, TEAL, ORANGE = "#5f6b7a", "#2563ab", "#0f7d7d", "#b8590b"
GOLD, PURPLE, GREEN = "#8a6a00", "#7440a8", "#2c7a36"

PACKAGES = {
    "cli": Package(3, 0, GREY, ("the command line,", "one file per command")),
    "experiments": Package(3, 1, GREY, ("figures and tables", "of the paper")),
    "estimators": Package(1, 2, GREEN, ("scikit-learn", "estimators")),
    "distributed": Package(0, 2, GREEN, ("the same over", "dask workers")),
    "baselines": Package(2, 2, GREY, ("competing methods,", "one file per method")),
    "datasets": Package(3, 2, GREY, ("loaders and", "generators of points")),
    "tables": Package(4, 1, GREY, ("models of tables: text,", "dates, missing values")),
    "report": Package(4, 0, GREY, ("figures and the", "one-page report")),
    "_api": Package(0, 3, GREY, ("factorize, plan,", "factorize_cross")),
    "streaming": Package(1, 4, TEAL, ("rows on disk, read", "in pieces")),
    "planning": Package(0, 4, GOLD, ("clusters and ranks for", "a tolerance or a budget")),
    "accuracy": Package(2, 4, GREY, ("errors, norms, ranks,", "leverage scores")),
    "construction": Package(0, 5, ORANGE, ("cluster bases, inner", "matrix, diagonal part")),
    "solvers": Package(1, 5, PURPLE, ("direct and iterative", "solves, eigenpairs")),
    "operators": Package(0, 6, BLUE, ("the factorization: data,", "products, files")),
    "kernels": Package(0, 7, GREY, ("kernels, distances,", "kernel entries")),
    "partition": Package(1, 7, TEAL, ("points to clusters", "(one module)")),
}
#: Packages that all others may import; they are one bar, without arrows.
SHARED = {"_utils": "linear algebra, threads, validation, progress, files", "exceptions": "classes of warnings"}
#: Modules that are drawn as a part of another box, and former import paths, which are not drawn.
PART_OF = {"_arguments": "_api"}
NOT_DRAWN = {"__main__", "exact", "operator", "plotting", "selection", "storage"}

STAGES = (
    Stage("points", "", ""),
    Stage("Partition", "partition", "partition.py"),
    Stage("cluster bases", "construction", "construction/cluster_basis.py"),
    Stage("inner matrix", "construction", "construction/inner_matrix.py"),
    Stage("BlockBasis", "operators", "operators/block_basis.py"),
    Stage("solution", "solvers", "solvers/ridge_system.py"),
    Stage("estimator", "estimators", "estimators/ridge.py"),
)

WIDTH, MARGIN = 960, 24
BOX, COLUMN_GAP, ROW_HEIGHT, BOX_HEIGHT = 166, 20.5, 88, 58
GRAPH_TOP = 250


def package_graph() -> dict[str, set[str]]:
    """Packages that each package imports, without the shared ones."""
    graph: dict[str, set[str]] = {name: set() for name in PACKAGES}
    for module, imported in imports().items():
        importer = _package(module)
        if importer in graph:
            graph[importer] |= {_package(each) for each in imported} & graph.keys() - {importer}
    return graph


def _package(module: str) -> str:
    name = (*module.split("."), "")[1]
    name = PART_OF.get(name, name)
    if name and name not in PACKAGES and name not in SHARED and name not in NOT_DRAWN:
        raise ValueError(f"{name} has no place on the picture: add it to PACKAGES in tools/architecture.py.")
    return name


def transitive_reduction(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The least set of arrows from which all others follow."""

    @cache
    def reached(name: str) -> frozenset[str]:
        return frozenset(graph[name]).union(*(reached(each) for each in graph[name]))

    return {
        name: {each for each in direct if not any(each in reached(other) for other in direct - {each})}
        for name, direct in graph.items()
    }


def picture() -> str:
    """The picture as SVG."""
    height = GRAPH_TOP + 8 * ROW_HEIGHT + 74
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    font = 'font-family="Helvetica, Arial, sans-serif"'
    tip = 'id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img" aria-labelledby="title">',
        '<title id="title">The way of a value through blockbasis, and the imports between its packages</title>',
        f'<defs><marker {tip} orient="auto"><path d="M0 0.6 L7.4 4 L0 7.4 Z" fill="#44505e"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        *_way_of_a_value(),
        *_packages(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


# --- the way of a value ----------------------------------------------------------------------------------------------


def _way_of_a_value() -> list[str]:
    parts = [_text(MARGIN, 40, "The way of a value", size=18, weight="bold")]
    width, gap, top, tall = 112, 21.3, 62, 44
    centres = {}
    for i, stage in enumerate(STAGES):
        x = MARGIN + i * (width + gap)
        colour = PACKAGES[stage.package].colour if stage.package else GREY
        centres[stage.value] = x + width / 2
        parts.append(_rectangle(x, top, width, tall, colour, radius=22))
        parts.append(_text(x + width / 2, top + 27, stage.value, size=13, weight="bold", anchor="middle", fill=colour))
        if i:
            parts.append(_arrow(f"M{x - gap + 2:.1f} {top + tall / 2} L{x - 2:.1f} {top + tall / 2}"))
        if stage.file:
            _check_file(stage.file)
            folder, _, file = stage.file.rpartition("/")
            lines = (f"{folder}/", file) if folder else (file,)
            for j, line in enumerate(lines):
                parts.append(_text(x + width / 2, top + tall + 18 + 14 * j, line, size=11, anchor="middle"))
    left, right = centres["Partition"] - width / 2, centres["inner matrix"] + width / 2
    y, colour = top + tall + 64, PACKAGES["planning"].colour
    note = "planning/ chooses clusters and ranks, and checks the error"
    parts.append(_rectangle(left, y, right - left, 30, colour))
    parts.append(_text((left + right) / 2, y + 19, note, size=12, anchor="middle", fill=colour))
    planned = ("Partition", "cluster bases", "inner matrix")
    parts += [_arrow(f"M{centres[each]:.1f} {y - 2} L{centres[each]:.1f} {y - 19}") for each in planned]
    formula = centres["BlockBasis"] - width / 2
    parts.append(_text(formula, y + 19, "K ≈ U C Uᵀ + D, a SciPy LinearOperator", size=12, fill=BLUE))
    return parts


def _check_file(file: str) -> None:
    if not (ROOT / file).is_file():
        raise ValueError(f"There is no src/blockbasis/{file}: correct STAGES in tools/architecture.py.")


# --- the packages ----------------------------------------------------------------------------------------------------


def _packages() -> list[str]:
    parts = [_text(MARGIN, GRAPH_TOP - 8, "The packages, and the imports between them", size=18, weight="bold")]
    reduced = transitive_reduction(package_graph())
    arrows = [(PACKAGES[name], PACKAGES[other]) for name in sorted(reduced) for other in sorted(reduced[name])]
    parts += [_arrow(_route(*arrow)) for arrow in arrows]
    for name, package in PACKAGES.items():
        x, y = _corner(package)
        parts.append(_rectangle(x, y, BOX, BOX_HEIGHT, package.colour))
        shown = name if name in ("_api", "partition") else f"{name}/"
        middle = x + BOX / 2
        parts.append(_text(middle, y + 19, shown, size=14, weight="bold", anchor="middle", fill=package.colour))
        for j, line in enumerate(package.lines):
            parts.append(_text(middle, y + 34 + 14 * j, line, size=11, anchor="middle"))
    y = GRAPH_TOP + 8 * ROW_HEIGHT + 14
    (utilities, content), (exceptions, classes) = SHARED.items()
    middle = _left(3) - COLUMN_GAP / 2
    parts.append(_rectangle(MARGIN, y, WIDTH - 2 * MARGIN, 36, GREY))
    parts.append(_text(MARGIN + 16, y + 23, f"{utilities}/", size=14, weight="bold", fill=GREY))
    parts.append(_text(MARGIN + 84, y + 23, content, size=12))
    parts.append(_text(middle, y + 23, exceptions, size=14, weight="bold", fill=GREY))
    parts.append(_text(middle + 98, y + 23, classes, size=12))
    legend = (
        "An arrow goes from a package to a package that it imports.",
        "An import that follows from other arrows is not drawn.",
        "All packages may import the bar at the bottom.",
        "import-linter checks the order of the packages (make lint).",
    )
    for j, line in enumerate(legend):
        parts.append(_text(_left(2.25), GRAPH_TOP + 5.6 * ROW_HEIGHT + 18 * j, line, size=12))
    return parts


def _left(column: float) -> float:
    return MARGIN + column * (BOX + COLUMN_GAP)


def _corner(package: Package) -> tuple[float, float]:
    return _left(package.column), GRAPH_TOP + 12 + package.row * ROW_HEIGHT


def _route(first: Package, second: Package) -> str:
    """A straight line down in one column; otherwise a curve from the bottom of a box to the side or top of another."""
    (x, y), (u, v) = _corner(first), _corner(second)
    start, bottom = x + BOX / 2, y + BOX_HEIGHT
    if first.column == second.column:
        return f"M{start:.1f} {bottom} L{start:.1f} {v - 2}"
    if second.row == first.row + 1:
        away = first.column - second.column
        start -= 30 if away > 0 else -30
        end = u + BOX / 2 + (30 if abs(away) == 1 else 60) * (1 if away > 0 else -1)
        return f"M{start:.1f} {bottom} C{start:.1f} {v - 4} {end:.1f} {bottom + 4} {end:.1f} {v - 2}"
    end = u + BOX + 2 if second.column < first.column else u - 2
    middle = v + BOX_HEIGHT / 2
    return f"M{start:.1f} {bottom} C{start:.1f} {middle} {start:.1f} {middle} {end:.1f} {middle}"


# --- elements --------------------------------------------------------------------------------------------------------


def _rectangle(x: float, y: float, width: float, height: float, colour: str, *, radius: int = 6) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="{radius}" fill="{colour}" '
        f'fill-opacity="0.09" stroke="{colour}" stroke-width="1.4"/>'
    )


def _text(
    x: float, y: float, text: str, *, size: int, weight: str = "normal", anchor: str = "start", fill: str = "#26303b"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{fill}">{escape(text)}</text>'
    )


def _arrow(path: str) -> str:
    return f'<path d="{path}" fill="none" stroke="#44505e" stroke-width="1.3" marker-end="url(#tip)"/>'


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(picture(), encoding="utf-8", newline="\n")
    print(f"written: {PICTURE.name}")


if __name__ == "__main__":
    main()
