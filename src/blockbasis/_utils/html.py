"""Short summaries of objects for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def summary_table(title: str, facts: Mapping[str, str]) -> str:
    """Return a title and a table of names and values as HTML.

    Parameters
    ----------
    title : str
    facts : mapping of str to str

    Returns
    -------
    str

    Examples
    --------
    >>> from blockbasis._utils.html import summary_table
    >>> summary_table("Plan", {"clusters": "4"})
    '<table style="text-align: left"><caption>Plan</caption><tr><th scope="row">clusters</th><td>4</td></tr></table>'
    """
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in facts.items()
    )
    return f'<table style="text-align: left"><caption>{escape(title)}</caption>{rows}</table>'
