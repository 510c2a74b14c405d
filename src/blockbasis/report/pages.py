"""Reports of a fitted model and of a factorization: their sections, figures, tables and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from blockbasis._utils.files import in_bytes
from blockbasis.report import model_figures as of_model
from blockbasis.report import structure_figures as of_structure
from blockbasis.report.leave_one_out import MEASURES, ROWS, search_scores
from blockbasis.report.page import DataTable, Page, Section
from blockbasis.tables.scorecard import OURS

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.operators.block_basis import BlockBasis
    from blockbasis.tables import Evaluation, TableModel
    from blockbasis.tables.scorecard import Scorecard

#: Rows of a table that repeats the numbers of a figure.
_ROWS = 30
#: Eigenvalues of a spectrum that its table lists, by their number.
_LISTED = (1, 2, 5, 10, 20, 50, 100, 200, 500)
#: Scores by which the searches compare candidates.
_SCORES = {"regression": "R²", "classification": "minus the log-loss"}
_NO_FINDINGS = "The checks of the data found nothing."
#: Largest number of clusters whose blocks are drawn.
_MAX_CLUSTERS = 400


def model_page(
    model: TableModel,
    evaluation: Evaluation,
    *,
    findings: Sequence[str] = (),
    stages: Mapping[str, float] | None = None,
    command: str = "",
) -> Page:
    """Return the report of a fitted model.

    Parameters
    ----------
    model : TableModel
    evaluation : Evaluation
        What `fit_table` returned beside the model.
    findings : sequence of str, default=()
        What `check_data` found.
    stages : mapping of str to float, default=None
        Seconds of each stage.
    command : str, default=""
        Command that made the report.

    Returns
    -------
    Page

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.report import model_page
    >>> from blockbasis.tables import Table, fit_table
    >>> x = np.linspace(0, 6, 100)
    >>> page = model_page(*fit_table(Table(("x", "y"), (x, np.sin(x))), "y"))
    >>> page.title
    'Regression of y'
    """
    card, estimator = model.scorecard, model.estimator
    sections = [] if card is None else [_score_section(card), *_prediction_sections(model, evaluation)]
    if hasattr(estimator, "feature_importances_"):
        sections.append(_importances(model))
    sections += _search_sections(model, evaluation)
    if hasattr(estimator, "factorization_"):
        sections += structure_sections(estimator.factorization_)
    if stages:
        sections.append(stage_section(stages))
    sections += [_data_section(model, findings), *_notes_section(evaluation)]
    rows = len(evaluation.prepared.y_test)
    used, encoded = sum(column.kind != "drop" for column in model.encoder.columns), len(model.encoder.outputs)
    columns = f"{used} column{'s' if used > 1 else ''}" + (f", {encoded} after encoding" if encoded != used else "")
    summary = [
        (
            f"A kernel model predicts {model.target} from {columns}. It was fitted to {model.rows:,} rows and tested "
            f"on {rows:,} others."
        )
    ]
    summary += ["Without test rows its error is not known."] if card is None else [card.verdict]
    facts = [
        ("rows for the fit", f"{model.rows:,}"),
        ("test rows", f"{rows:,}"),
        ("seconds of the fit", f"{model.seconds:.1f}"),
    ]
    if card is not None:
        facts.insert(0, (f"test {card.measure}", str(card.scores[0])))
        facts += [] if card.r2 is None else [("R²", f"{card.r2:.3f}")]
    return Page(f"{model.task.capitalize()} of {model.target}", summary, facts, sections, command)


def factorization_page(
    A: BlockBasis,
    *,
    title: str,
    findings: Sequence[str] | None = None,
    stages: Mapping[str, float] | None = None,
    command: str = "",
) -> Page:
    """Return the report of a factorization.

    Parameters
    ----------
    A : BlockBasis
    title : str
    findings : sequence of str, default=None
        What `check_points` found; None without such checks.
    stages : mapping of str to float, default=None
        Seconds of each stage.
    command : str, default=""
        Command that made the report.

    Returns
    -------
    Page

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.report import factorization_page
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> page = factorization_page(bb.factorize(X, bb.Gaussian(1.0), tol=0.05, rng=0), title="200 points")
    >>> [section.title for section in page.sections][:2]
    ['Clusters and ranks', 'Blocks of the inner matrix']
    """
    n, parts = A.shape[0], of_structure.memory_parts(A)
    factor = parts["dense matrix"] / parts["all of it"]
    times = f"{factor:,.0f}" if factor > 100 else f"{factor:.3g}"
    summary = [
        (
            f"The kernel matrix of {n:,} points has {n**2:,} entries. It is stored in {A.n_clusters} clusters with "
            f"{A.stored / n:.1f} floats per point, {times} times less memory than the dense matrix."
        )
    ]
    facts = [("points", f"{n:,}"), ("clusters", str(A.n_clusters)), ("floats per point", f"{A.stored / n:.1f}")]
    if A.error_estimate is not None:
        error = A.error_estimate
        source = "all entries" if error.exact else "sampled exact entries"
        summary.append(f"The relative error of the matrix is {error.value:.2g} (Frobenius norm, from {source}).")
        spread = f" ± {error.stderr:.0e}" if error.stderr else ""
        facts.insert(0, ("relative error", f"{error.value:.2e}{spread}"))
    facts.append(("of the entries evaluated", f"{A.entries.total / n**2:.2%}"))
    sections = structure_sections(A) + ([stage_section(stages)] if stages else [])
    if findings is not None:
        sections.append(Section("Data", list(findings) or [_NO_FINDINGS]))
    return Page(title, summary, facts, sections, command)


# --- sections of a model ---------------------------------------------------------------------------------------------


def _score_section(card: Scorecard) -> Section:
    names, errors = [score.name for score in card.scores], [score.error for score in card.scores]
    stderrs = [score.stderr for score in card.scores]
    axes = of_model.score_bars(names, errors, stderrs)
    axes.set_xlabel(f"test {card.measure}")
    listed = ", ".join(f"{score.name} {score}" for score in card.scores)
    return Section(
        "Test error",
        f"{card.rows} rows that the fit has not seen; the lines are two standard errors to both sides.",
        axes,
        f"Bars of the test {card.measure}: {listed}.",
        DataTable(("model", card.measure, "standard error"), [(s.name, s.error, s.stderr) for s in card.scores]),
        open_table=True,
    )


def _prediction_sections(model: TableModel, evaluation: Evaluation) -> list[Section]:
    y, predictions = evaluation.prepared.y_test, evaluation.predictions[OURS]
    if model.task == "regression":
        residuals = np.asarray(y - predictions)
        quantiles = np.quantile(residuals, [0.05, 0.25, 0.5, 0.75, 0.95])
        return [
            Section(
                "Predicted and true values",
                "Test rows; on the dashed line prediction and truth agree.",
                of_model.predicted_against_true(y, predictions),
                f"Scatter plot of {len(y)} predictions against true values of {model.target}.",
                DataTable(
                    ("quantile of true value minus prediction", "value"),
                    list(zip(("5%", "25%", "50%", "75%", "95%"), map(float, quantiles), strict=True)),
                ),
            )
        ]
    classes = list(model.estimator.classes_)
    counts = of_model.confusion_counts(y, predictions, classes)
    assert evaluation.probabilities is not None
    bins = of_model.calibration_bins(y, evaluation.probabilities, classes)
    return [
        Section(
            "Confusion matrix",
            "Test rows by true and predicted class. Dark blue cells hold most of their true class.",
            of_model.confusion_matrix(y, predictions, classes),
            f"Confusion matrix of {len(classes)} classes; {int(np.trace(counts))} of {len(y)} predictions are correct.",
            DataTable(
                ("true class", *map(str, classes)),
                [(str(name), *map(int, row)) for name, row in zip(classes, counts, strict=True)],
            ),
        ),
        Section(
            "Calibration",
            "How often the model is right when it gives a certain probability. On the dashed line both agree.",
            of_model.calibration_curve(y, evaluation.probabilities, classes),
            f"Share of correct predictions against their probability in {len(bins)} bins.",
            DataTable(
                ("mean probability", "share of correct predictions", "rows"),
                [(f"{p:.3f}", float(hit), int(count)) for p, hit, count in bins],
            ),
        ),
    ]


def _importances(model: TableModel) -> Section:
    shares, names = np.asarray(model.estimator.feature_importances_), model.encoder.outputs
    order = np.argsort(-shares)[:_ROWS]
    top = ", ".join(f"{names[i]} {shares[i]:.0%}" for i in order[:3])
    return Section(
        "Importance of the columns",
        "Shares of the learned metric, in units of the standard deviation of each column. A small share means that the "
        "prediction hardly changes along the column; it does not mean that the column is unrelated to the target.",
        of_model.importance_bars(names, shares),
        f"Bars of the largest shares of the learned metric: {top}.",
        DataTable(("column", "share"), [(names[i], float(shares[i])) for i in order]),
    )


def _search_sections(model: TableModel, evaluation: Evaluation) -> list[Section]:
    results = model.estimator.cv_results_
    scores = of_model.learning_scores(results)
    rows = [(kernel, n, score) for kernel, (sizes, own) in scores.items() for n, score in zip(sizes, own, strict=True)]
    curve = Section(
        "Learning curve of the search",
        "Best score of each kernel at growing samples of the training rows. Where a curve still rises, more rows would "
        "help.",
        of_model.learning_curve(results, label=_SCORES[model.task]),
        f"{_SCORES[model.task].capitalize()} of each kernel against the number of rows: "
        + "; ".join(f"{kernel} {own[-1]:.3f} at {sizes[-1]} rows" for kernel, (sizes, own) in scores.items())
        + ".",
        DataTable(("kernel", "rows", _SCORES[model.task]), rows),
    )
    found = search_scores(evaluation.prepared.X, evaluation.prepared.y, model.task)
    measure = MEASURES[model.task]
    bandwidths, ridges, values = of_model.search_grid(found)
    i, j = np.unravel_index(np.argmax(values), values.shape)
    surface = Section(
        "Error over bandwidth and ridge",
        f"Leave-one-out {measure} of a Gaussian kernel on {min(ROWS, model.rows)} training rows with "
        f"standardized columns: how much the choice matters. The cross is the best pair{_edge(values)}.",
        of_model.search_map(found, label=f"leave-one-out {measure}"),
        f"Map of the leave-one-out {measure}; best are bandwidth {bandwidths[j]:.2g} and ridge {ridges[i]:.2g}.",
        DataTable(
            ("ridge", *(f"h = {h:.2g}" for h in bandwidths)),
            [(f"{ridge:.2g}", *map(float, row)) for ridge, row in zip(ridges, values, strict=True)],
        ),
    )
    return [surface, curve]


def _edge(values: FloatArray) -> str:
    """Return an addition to the sentence about the best pair if it is on the edge of the map."""
    i, j = np.unravel_index(np.argmax(values), values.shape)
    inside = 0 < i < values.shape[0] - 1 and 0 < j < values.shape[1] - 1
    return "" if inside else "; it is on the edge of the map, and the model itself is not bound to this map"


def _data_section(model: TableModel, findings: Sequence[str]) -> Section:
    columns = [
        (column.name, column.sentence.removeprefix(f"{column.name}: ") or "numbers") for column in model.encoder.columns
    ]
    return Section("Data", list(findings) or [_NO_FINDINGS], table=DataTable(("column", "use"), columns))


def _notes_section(evaluation: Evaluation) -> list[Section]:
    notes = evaluation.prepared.notes
    return [Section("Notes", notes)] if notes else []


# --- sections of a factorization -------------------------------------------------------------------------------------


def structure_sections(A: BlockBasis) -> list[Section]:
    """Return the sections about clusters, blocks, spectra and memory of a factorization.

    Parameters
    ----------
    A : BlockBasis

    Returns
    -------
    list of Section
    """
    sizes, ranks = A.partition.sizes, A.ranks
    largest = np.argsort(-sizes, kind="stable")[:_ROWS]
    clusters = Section(
        "Clusters and ranks",
        f"{A.n_clusters} clusters of {sizes.min()} to {sizes.max()} points, ranks {ranks.min()} to {ranks.max()}.",
        of_structure.clusters_and_ranks(A),
        f"Rank against number of points of {A.n_clusters} clusters.",
        DataTable(("cluster", "points", "rank"), [(int(i), int(sizes[i]), int(ranks[i])) for i in largest]),
    )
    parts = of_structure.memory_parts(A)
    memory = Section(
        "Memory beside the dense matrix",
        f"{in_bytes(parts['all of it'])}, in place of {in_bytes(parts['dense matrix'])} of the dense matrix.",
        of_structure.memory_bars(A),
        "Bars of the memory of each part on a logarithmic axis, and of the dense matrix.",
        DataTable(("part", "size"), [(name, in_bytes(count)) for name, count in parts.items()]),
    )
    spectra = Section(
        "Spectra of the clusters",
        "Eigenvalues of the diagonal blocks of the inner matrix. A curve that falls fast needs few basis functions.",
        of_structure.spectra(A),
        "Eigenvalues of the diagonal blocks of up to five clusters, in descending order.",
        _spectra_table(of_structure.some_spectra(A)),
    )
    return [clusters, *_blocks(A), spectra, memory]


def _spectra_table(spectra: Mapping[int, FloatArray]) -> DataTable:
    longest = max(len(values) for values in spectra.values())
    rows = [
        (str(k), *(f"{values[k - 1]:.3g}" if k <= len(values) else "" for values in spectra.values()))
        for k in _LISTED
        if k <= longest
    ]
    return DataTable(("eigenvalue", *(f"cluster {i}" for i in spectra)), rows)


def _block_table(A: BlockBasis) -> DataTable:
    """Return the largest blocks of C above the diagonal, relative to the largest of all."""
    norms = of_structure.block_norms(A)
    above = np.triu(norms, 1)
    order = np.argsort(-above, axis=None, kind="stable")[:_ROWS]
    pairs = [np.unravel_index(place, above.shape) for place in order]
    top = max(float(norms.max()), np.finfo(float).tiny)
    rows = [(f"{i} and {j}", float(above[i, j] / top)) for i, j in pairs if above[i, j] > 0]
    return DataTable(("clusters", "norm of their block, relative to the largest"), rows)


def _blocks(A: BlockBasis) -> list[Section]:
    if A.n_clusters > _MAX_CLUSTERS:
        return []
    density = A.inner.density
    return [
        Section(
            "Blocks of the inner matrix",
            f"{density:.0%} of the blocks of C are stored. Bright blocks belong to pairs of clusters that interact; "
            "blank ones are not stored.",
            of_structure.block_map(A),
            f"Map of the norms of {A.n_clusters} by {A.n_clusters} blocks; {density:.0%} of them are stored.",
            _block_table(A),
        )
    ]


def stage_section(stages: Mapping[str, float]) -> Section:
    """Return the section about the seconds of each stage.

    Parameters
    ----------
    stages : mapping of str to float

    Returns
    -------
    Section
    """
    total = sum(stages.values())
    return Section(
        "Time by stage",
        f"{total:.1f} seconds in all.",
        of_structure.stage_bars(stages),
        "Bars of the seconds of each stage: " + ", ".join(f"{name} {s:.2g}" for name, s in stages.items()) + ".",
        DataTable(("stage", "seconds"), [(name, float(s)) for name, s in stages.items()]),
    )
