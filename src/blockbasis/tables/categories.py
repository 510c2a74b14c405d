"""Categories of a text column, found in tables that write the same values in another way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from blockbasis.datasets.csvfile import is_number
from blockbasis.tables.reading import DATE, in_utc

#: Stands for missing text among the categories.
MISSING = "(missing)"
#: What a text says, however it is written: a truth value, a number or a date.
Meaning: TypeAlias = tuple[str, Any]


def find_codes(categories: Sequence[str], values: Iterable[str]) -> list[int]:
    """Return the index of the category of each value; -1 for unknown values.

    A value that is not written as a category is compared by its meaning if all categories are numbers, all are dates,
    or they are true and false, and no two of them mean the same.

    Examples
    --------
    >>> from blockbasis.tables.categories import find_codes
    >>> find_codes(("False", "True"), ["true", "FALSE", "yes"])
    [1, 0, -1]
    >>> find_codes(("07030", "1.0"), ["1", "7030", "2"])
    [1, 0, -1]
    """
    place = {category: i for i, category in enumerate(categories)}
    values = list(values)
    others = set(values) - place.keys()
    if others:
        of_meanings = _places_of_meanings(categories)
        place |= {value: of_meanings.get(_meaning(value), -1) for value in others}
    return [place[value] for value in values]


def _places_of_meanings(categories: Sequence[str]) -> dict[Meaning | None, int]:
    """Return the index of the category of each meaning; nothing if a category is plain text or meanings repeat."""
    known = [(_meaning(category), i) for i, category in enumerate(categories) if category != MISSING]
    meanings = {meaning for meaning, _ in known}
    sorts = {None if meaning is None else meaning[0] for meaning in meanings}
    if None in sorts or len(sorts) != 1 or len(meanings) < len(known) or (sorts == {"truth"} and len(known) != 2):
        return {}
    return dict(known)


def _meaning(text: str) -> Meaning | None:
    """Return what a text says; None for plain text."""
    if text.lower() in ("true", "false"):
        return "truth", text.lower()
    if is_number(text):
        return "number", float(text)
    if DATE.fullmatch(text):
        try:
            return "date", np.datetime64(in_utc(text), "us")
        except ValueError:
            return None
    return None
