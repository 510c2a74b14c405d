from __future__ import annotations

import warnings

from blockbasis._utils.frames import users_stacklevel


def within_the_package(depth):
    """A function of the package that calls others before it warns."""
    names = {"__name__": "blockbasis.some_module", "warnings": warnings, "users_stacklevel": users_stacklevel}
    code = (
        "def f(depth):\n    if depth:\n        return f(depth - 1)\n"
        "    warnings.warn('here', stacklevel=users_stacklevel())\n"
    )
    exec(code, names)
    return names["f"](depth)


def test_a_warning_names_the_line_that_called_the_package():
    for depth in (0, 1, 5):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            within_the_package(depth)
        assert caught[0].filename == __file__
