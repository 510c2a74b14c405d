"""Configuration of the documentation: ``make docs`` builds it, and warnings are errors."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import blockbasis

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from members import members  # noqa: E402

project = "blockbasis"
author = "The blockbasis developers"
version = release = blockbasis.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "mathml" if find_spec("latex2mathml") else "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "generated/included/*"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache"]

html_math_renderer = "mathml" if "mathml" in extensions else "mathjax"
autosummary_generate = True
autosummary_context = {"shown_members": members}
templates_path = ["_templates"]
numpydoc_show_class_members = False
autodoc_typehints = "none"
default_role = "py:obj"

html_theme = "pydata_sphinx_theme"
html_title = f"blockbasis {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 8,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
#: Pages without subpages have no navigation at their side.
html_sidebars = {name: [] for name in ("index", "start", "which_method", "guide", "mathematics")}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def save_figure(block, block_vars, gallery_conf):
    """Save the variable ``figure`` of an example: its figures are made without pyplot."""
    from sphinx_gallery.scrapers import figure_rst

    figure = block_vars["example_globals"].get("figure")
    if figure is None:
        return ""
    path = next(block_vars["image_path_iterator"])
    figure.savefig(path, dpi=110)
    return figure_rst([path], gallery_conf["src_dir"])


sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples" / "gallery")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"plot_",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
    "show_signature": False,
    "capture_repr": (),
    "image_scrapers": ("conf.save_figure",),
}

#: Pages of the repository that are also pages of the site, with the name of each on the site.
INCLUDED = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
}
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?://|mailto:|#)([^)#\s]+)(#[^)]*)?\)")


def _site_path(target: Path) -> str | None:
    """Return the path of a page from the folder of the documentation; None if it is no page of the site."""
    try:
        relative = target.resolve().relative_to(ROOT)
    except ValueError:
        return None
    if relative.as_posix() in INCLUDED:
        return "generated/" + INCLUDED[relative.as_posix()]
    inside = relative.as_posix().removeprefix("docs/")
    return inside if relative.parts[0] == "docs" and (ROOT / relative).exists() else None


def rewrite_links(text: str, page: Path, folder: Path) -> str:
    """Return a page with links between files of the repository as links between pages of the site."""
    up = "../" * len(folder.relative_to(ROOT / "docs").parts)

    def link(found: re.Match[str]) -> str:
        place = _site_path(page.parent / found[2])
        # A file that is no page of the site, such as a module, keeps its text only.
        return found[1] if place is None else f"[{found[1]}]({up}{place}{found[3] or ''})"

    return _LINK.sub(link, text)


def _write_included() -> None:
    folder = ROOT / "docs" / "generated"
    folder.mkdir(exist_ok=True)
    for source, name in INCLUDED.items():
        path = ROOT / source
        if path.exists():
            (folder / name).write_text(rewrite_links(path.read_text(encoding="utf-8"), path, folder), encoding="utf-8")


_write_included()


def _rewrite_source(app, docname, source):
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".md" and "generated" not in path.parts and "gallery" not in path.parts:
        source[0] = rewrite_links(source[0], path, path.parent)
        source[0] = re.sub(r'<a id="([^"]+)"></a>', r"(\1)=", source[0])


def _plain_docstring(app, what, name, obj, options, lines):
    """Escape bars, which are norms in docstrings, and drop references to the labels of scikit-learn."""
    for k, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = re.sub(r":ref:`([^<`]+?)\s*<[^>]*>`", r"\1", line).split("``")
        lines[k] = "``".join(part if j % 2 else _escaped(part) for j, part in enumerate(parts))


def _escaped(text):
    """Escape bars, and the underscore at the end of names in shapes, which would be references."""
    return re.sub(r"(?<=\w)_(?=,?\))", r"\\_", text.replace("|", r"\|"))


def setup(app):
    """Connect the rewriting of links and docstrings."""
    app.connect("source-read", _rewrite_source)
    app.connect("autodoc-process-docstring", _plain_docstring, priority=400)
