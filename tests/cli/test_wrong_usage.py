"""Wrong usages: each ends with one sentence, the right exit code, no traceback, and nothing left behind."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

pytest.importorskip("typer")

from blockbasis.cli import console, files, reporting
from blockbasis.cli import fit as fit_module
from blockbasis.cli.app import app
from blockbasis.tables import reading

FAILURE, USAGE, INTERRUPTED = 1, 2, 130
GOOD = "a,b,y\n" + "".join(f"{i % 7},{i % 5},{i % 3 + i / 10}\n" for i in range(30))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with good and bad files, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    contents = {
        "good.csv": GOOD,
        "empty.csv": "",
        "header.csv": "a,b,y\n",
        "one.csv": "a,b,y\n1,2,3\n",
        "word.csv": GOOD.replace("4,4,1.4", "4,oops,1.4").replace("4,4,", "4,oops,", 1),
        "ragged.csv": GOOD + "1,2\n",
        "infinite.csv": GOOD + "1,inf,3\n",
        "constant.csv": "a,y\n" + "1,2\n" * 20,
        "same.csv": "a,y\n" + "".join(f"{i},2\n" for i in range(20)),
        "twice.csv": "a,a,y\n" + "1,2,3\n" * 20,
        "alone.csv": "y\n" + "".join(f"{i}\n" for i in range(20)),
        "nan.csv": "a,b\n1,2\nnan,4\n3,5\n",
        "other.csv": "length,weight\n0.5,3\n",
        "text.csv": "length,sex\nlong,M\nshort,F\n",
        "thousands.csv": "a;y\n" + "".join(f"{i};{i},005\n" for i in range(30)),
        "rows.csv": "length,sex\n" + "0.5,M\n" * 9 + "long,M\n",
        "commas.csv": "a;y\n" + "".join(f"{i};{i},5\n" for i in range(30)),
        "names.csv": "a,y\n" + "".join(f"{i},n{i}\n" for i in range(30)),
        "points.doc": "1 2\n",
        "taken.bbf": "precious",
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.csv").write_bytes(bytes(range(128, 256)) * 20)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    (tmp_path / "folder").mkdir()
    with zipfile.ZipFile(tmp_path / "foreign.bbf", "w") as archive:
        archive.writestr("hello.txt", "not ours")
    np.save(tmp_path / "short.npy", np.ones((7, 1)))
    return tmp_path


WRONG = [
    ("a missing file", "fit absent.csv -t y", FAILURE, "There is no file absent.csv."),
    ("an empty file", "fit empty.csv -t y", FAILURE, "empty.csv is empty."),
    ("a binary file", "fit binary.csv -t y", FAILURE, "binary.csv is not a text file in UTF-8."),
    ("a header without rows", "fit header.csv -t y", FAILURE, "header.csv has a header and no rows."),
    ("a single row", "fit one.csv -t y", FAILURE, "at least 10 rows with a value of 'y'. Got 1"),
    ("a folder", "fit folder -t y", FAILURE, "The directory folder has no file whose name ends with .parquet."),
    ("an unknown ending", "fit points.doc -t y", FAILURE, "points.doc has no known ending."),
    ("a damaged Parquet file", "fit bad.parquet -t y", FAILURE, "bad.parquet is not a complete Parquet file"),
    ("a target that is not in the header", "fit good.csv -t z", FAILURE, "has no column 'z'. Its columns are a, b, y."),
    (
        "a word among numbers",
        "fit word.csv -t y",
        FAILURE,
        "the text 'oops' among the numbers of column 'b', in line 6",
    ),
    (
        "decimal commas",
        "fit commas.csv -t y",
        FAILURE,
        "commas.csv has decimal commas in column 'y', such as 0,5 in line 2. Replace them by points",
    ),
    (
        "separators of thousands",
        "fit thousands.csv -t y",
        FAILURE,
        "has commas in the numbers in column 'y', such as 0,005 in line 2. Omit separators of thousands",
    ),
    ("a question at the end", "plann good.csv", USAGE, "Did you mean 'plan'? See"),
    ("as many classes as rows", "fit names.csv -t y", FAILURE, "'y' must repeat its classes. Got 30 different values"),
    ("lines of different lengths", "fit ragged.csv -t y", FAILURE, "Got 2 in line 32"),
    ("an infinity", "fit infinite.csv -t y", FAILURE, "must be free of infinity"),
    ("constant columns", "fit constant.csv -t y", FAILURE, "must have different values. Got 2.0 in every row"),
    ("a constant target", "fit same.csv -t y", FAILURE, "must have different values"),
    ("a name for two columns", "fit twice.csv -t y", FAILURE, "a different name for each column. Got 'a' twice"),
    ("a target alone", "fit alone.csv -t y", FAILURE, "must have a column beside the target 'y'."),
    ("a regression of text", "fit text.csv -t sex --task regression", FAILURE, "at least 10 rows"),
    ("a test of all rows", "fit good.csv -t y --test-size 1", USAGE, "--test-size"),
    (
        "a test of nearly all rows",
        "fit good.csv -t y --test-size 0.99",
        FAILURE,
        "--test-size must leave at least 2 of the 30 rows for the fit. Got 0.99 instead.",
    ),
    ("no time", "fit good.csv -t y --time-budget 0", USAGE, "must be a positive number, not 0"),
    ("an unknown kind", "fit good.csv -t y --column a=magic", USAGE, "KIND one of number, date, one-hot"),
    ("no target", "fit good.csv", USAGE, "Missing option '--target'"),
    ("an unknown option", "fit good.csv -t y --colour red", USAGE, "No such option: --colour"),
    ("an unknown command", "train good.csv", USAGE, "No such command 'train'"),
    ("a model that exists", "fit good.csv -t y -o taken.bbf", FAILURE, "taken.bbf exists. Give --force to replace it"),
    ("a folder that does not exist", "fit good.csv -t y -o no/m.bbf", FAILURE, "There is no folder no."),
    ("a report that is no page", "fit good.csv -t y --report r.pdf", FAILURE, "r.pdf must end in .html"),
    (
        "missing values in points",
        "compress nan.csv",
        FAILURE,
        "nan.csv must have no missing values. Got 'nan' in line 3",
    ),
    ("a tolerance of 7", "compress good.csv --tol 7", USAGE, "a relative error between 0 and 1, such as 0.01, not 7"),
    ("a bandwidth of 0", "compress good.csv --bandwidth 0", USAGE, "must be a positive number, not 0"),
    ("a size that is none", "compress good.csv --memory much", USAGE, "a size such as 50MB, or a number of floats"),
    ("two goals", "plan good.csv --tol 0.1 --memory 9", USAGE, "--tol and --memory exclude each other"),
    ("too little memory", "compress good.csv --memory 1", FAILURE, "at least 3 floats per point. Got 1 instead."),
    ("one point", "compare one.csv", FAILURE, "one point names no winner"),
    ("an unknown method", "compare good.csv --method nystroem", FAILURE, "no method 'nystroem'. Did you mean nystrom"),
    ("a foreign file", "info foreign.bbf", FAILURE, "foreign.bbf is not a complete blockbasis file"),
    ("a data file in place of ours", "info good.csv", FAILURE, "good.csv is not a complete blockbasis file"),
    ("a folder in place of ours", "info folder", FAILURE, "folder is a folder."),
    ("a file of ours that is absent", "info absent.bbf", FAILURE, "There is no file absent.bbf."),
]


@pytest.mark.parametrize(("command", "code", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_one_sentence_and_nothing_left_behind(call, place, command, code, message):
    before = {path.name: path.stat().st_mtime_ns for path in place.iterdir()}
    found, text = call(*command.split())
    assert message in text
    assert found == code
    assert text.count("Error:") == 1
    assert "Traceback" not in text
    assert {path.name: path.stat().st_mtime_ns for path in place.iterdir()} == before


WITH_A_MODEL = [
    ("other columns", "predict {}/rings.bbf other.csv", "lacks columns that the model needs: sex. It has weight"),
    ("text in a column of numbers", "predict {}/rings.bbf text.csv", "must have numbers in column 'length'"),
    ("a word among numbers", "predict {}/rings.bbf rows.csv", "in line 11. Correct it, or empty the cell."),
    (
        "a table as the model",
        "predict good.csv {}/rings.bbf",
        "good.csv is a table, and not a model. Usage: blockbasis",
    ),
    ("a factorization as the model", "predict {}/a.bbf good.csv", "holds a BlockBasis, and not a model of a table"),
    ("a model as the factorization", "apply {}/rings.bbf short.npy", "holds a TableModel, which has no products"),
    ("probabilities of a regression", "predict {}/rings.bbf good.csv --proba", "Use --interval 0.9."),
    ("intervals of classes", "predict {}/kind.bbf good.csv --interval 0.9", "Use --proba."),
    ("vectors of another length", "apply {}/a.bbf short.npy", "a row for each of the 60 points"),
    ("predictions of an unknown format", "predict {}/rings.bbf text.csv -o p.xlsx", "must end in .csv or .parquet"),
    ("an absent model", "predict absent.bbf text.csv", "There is no file absent.bbf."),
]


@pytest.mark.parametrize(("command", "message"), [case[1:] for case in WITH_A_MODEL], ids=[c[0] for c in WITH_A_MODEL])
def test_files_that_do_not_belong_together(call, place, saved, command, message):
    before = sorted(path.name for path in place.iterdir())
    code, text = call(*command.format(saved).split())
    assert message in text
    assert (code, text.count("Error:")) == (FAILURE, 1)
    assert sorted(path.name for path in place.iterdir()) == before


@pytest.mark.parametrize(
    "command",
    [
        "fit good.csv -t yy",
        "fit good.csv -t y --column c=number",
        "predict {}/rings.bbf good.csv",
        "predict {}/rings.bbf o.csv",
    ],
)
def test_wrong_columns_are_found_before_the_rows_are_read(call, place, saved, command, monkeypatch):
    (place / "o.csv").write_text("length,sex\n0.5,M\n")
    monkeypatch.setattr(reading, "_chunks", lambda *_: pytest.fail("The rows were read."))
    code, text = call(*command.format(saved).split(), *(["--keep", "id"] if "o.csv" in command else []))
    assert code == FAILURE
    assert text.startswith("Error: ")
    assert "has no column" in text or "lacks columns" in text


def test_columns_in_another_order_are_no_mistake(call, place, saved):
    (place / "turned.csv").write_text("sex,more,length\nM,1,0.5\n")
    (place / "straight.csv").write_text("length,sex\n0.5,M\n")
    turned, straight = (call("predict", saved / "rings.bbf", name) for name in ("turned.csv", "straight.csv"))
    assert turned == straight
    assert turned[0] == 0


@pytest.mark.parametrize("at", [0.0, 0.3, 0.6])  # not in the directory of the archive, whose dates are not read
def test_a_corrupted_model(call, place, saved, at):
    data = bytearray((saved / "rings.bbf").read_bytes())
    data[int(at * len(data))] ^= 0xFF
    (place / "m.bbf").write_bytes(data)
    code, text = call("predict", "m.bbf", "text.csv")
    assert code == FAILURE
    assert text.startswith("Error: m.bbf ")
    assert "Traceback" not in text


def test_a_truncated_model(call, place, saved):
    (place / "m.bbf").write_bytes((saved / "rings.bbf").read_bytes()[:-100])
    code, text = call("predict", "m.bbf", "text.csv")
    assert (code, "not a complete blockbasis file" in text) == (FAILURE, True)


def test_a_full_disk(call, place, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    before = sorted(path.name for path in place.iterdir())
    code, text = call("fit", "good.csv", "-t", "y", "-q")
    assert code == FAILURE
    assert (
        text
        == "Error: model.bbf: No space left on device. Free some space on the disk, or give another place with --out."
    )
    assert sorted(path.name for path in place.iterdir()) == before


def test_a_disk_that_is_full_for_the_report_keeps_the_model_and_names_the_option(call, place, monkeypatch):
    def full(page, path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(reporting, "write_page", full)
    code, text = call("fit", "good.csv", "-t", "y", "--report", "r.html")
    assert code == FAILURE
    assert "Model: model.bbf" in text  # a fit takes minutes: it is not thrown away
    assert text.endswith(
        "Error: r.html: No space left on device. Free some space on the disk, or give another place with --report."
    )
    assert not (place / "r.html").exists()


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs a mount")
def test_a_disk_of_few_kilobytes_and_one_that_is_read_only(place):
    """A real disk: a small file system in memory, where the user may mount one."""
    disk = place / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        for options in ((), ("-o", "remount,ro")):
            if options:
                subprocess.run(["mount", *options, disk], check=True)
            command = [sys.executable, "-m", "blockbasis", "fit", "good.csv", "-t", "y", "-q", "-o", "disk/m.bbf"]
            run = subprocess.run(command, cwd=place, capture_output=True, text=True)
            assert run.returncode == FAILURE
            wanted = "Nothing can be written to disk." if options else "disk/m.bbf: No space left on device."
            assert run.stderr.startswith(f"Error: {wanted}")
            assert len(run.stderr.splitlines()) == 1
            assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_read_only_folder(call, place, monkeypatch):
    monkeypatch.setattr(files.os, "access", lambda path, mode: mode != os.W_OK)
    code, text = call("fit", "good.csv", "-t", "y", "-o", "folder/m.bbf")
    assert code == FAILURE
    assert text == "Error: Nothing can be written to folder. Give a file in another folder with --out."


def test_an_interrupt(call, place, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit_module, "fit_prepared", interrupted)
    code, text = call("fit", "good.csv", "-t", "y")
    assert code == INTERRUPTED
    assert text.endswith("Interrupted. Nothing was written.")
    assert not (place / "model.bbf").exists()


def _heed_interrupts():
    """Undo that a shell lets the tests, as a job in the background, ignore interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_an_interrupt_of_a_process(place):
    rng = np.random.default_rng(0)
    np.savez(place / "many.npz", X=rng.normal(size=(20_000, 5)), y=rng.normal(size=20_000))
    command = [sys.executable, "-m", "blockbasis", "fit", "many.npz", "-t", "y"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=place, preexec_fn=_heed_interrupts, **pipes) as process:
        assert process.stdout.readline().startswith("many.npz: 20000 rows")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert said.endswith("Interrupted. Nothing was written.\n")
    assert "Traceback" not in said
    assert not (place / "model.bbf").exists()


def test_an_unexpected_error_is_a_line_and_a_traceback_with_debug(call, place, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(fit_module, "fit_prepared", broken)
    code, text = call("fit", "good.csv", "-t", "y", "-q")
    assert code == FAILURE
    assert text == (
        "Error: An unexpected ZeroDivisionError stopped the command: by nothing. This is a bug; --debug shows where it "
        "happened."
    )
    from typer.testing import CliRunner

    assert isinstance(CliRunner().invoke(app, ["fit", "good.csv", "-t", "y", "--debug"]).exception, ZeroDivisionError)


def test_no_matplotlib(call, place, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, text = call("compare", "good.csv", "--out", "pictures")
    assert code == FAILURE
    assert "blockbasis[plot]" in text
    assert not (place / "pictures").exists()


def test_a_narrow_terminal_and_no_colour(place):
    environment = {**os.environ, "COLUMNS": "30", "NO_COLOR": "1", "FORCE_COLOR": "1", "TERM": "xterm"}
    command = [sys.executable, "-m", "blockbasis", "fit", "good.csv", "-t", "y", "--out", "narrow.bbf"]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=place, env=environment, check=True)
    assert "\x1b[3" not in shown.stdout  # colours
    assert "kernel model" in shown.stdout


def test_an_error_is_one_line_on_a_narrow_terminal(place, monkeypatch, capsys):
    monkeypatch.setattr(console.stderr, "width", 30)
    with pytest.raises(SystemExit) as ended:
        app(["fit", "good.csv", "-t", "y", "--out", "folder"], prog_name="blockbasis")
    assert ended.value.code == FAILURE
    assert capsys.readouterr().err == "Error: folder is a folder. Give the path of a file with --out.\n"
