from __future__ import annotations

import pytest

from blockbasis.tables.categories import MISSING, find_codes


@pytest.mark.parametrize(
    ("categories", "values", "codes"),
    [
        (("M", "m"), ["m", "M", "F"], [1, 0, -1]),
        ((MISSING, "false", "true"), ["True", "FALSE", MISSING, "1"], [2, 1, 0, -1]),
        (("no", "true"), ["True"], [-1]),
        (("true",), ["True"], [-1]),
        (("False", "True", "false"), ["FALSE", "false"], [-1, 2]),
        (("1.0", "2.0"), ["1", "2", "2e0", "3"], [0, 1, 1, -1]),
        (("1", "1.0"), ["1.00", "1.0"], [-1, 1]),
        (("07030", "x"), ["7030"], [-1]),
        (("2024-05-31", "2024-06-01"), ["2024-05-31 00:00:00", "2024-05-32"], [0, -1]),
    ],
)
def test_categories_are_found_by_text_and_else_by_meaning(categories, values, codes):
    assert find_codes(categories, values) == codes
