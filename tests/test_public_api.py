from __future__ import annotations

from tools import public_api


def test_public_names_and_signatures_are_those_of_the_listing():
    """After an intended change, ``python -m tools.public_api`` writes the listing again."""
    listed = public_api.LISTING.read_text(encoding="utf-8").splitlines()
    found = public_api.listing().splitlines()
    assert sorted(set(listed) - set(found)) == [], "names or signatures that are lost"
    assert sorted(set(found) - set(listed)) == [], "names or signatures that are new"
    assert found == listed
