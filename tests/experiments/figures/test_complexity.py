"""The verdict says no when the figures do."""

from __future__ import annotations


def test_exponents_must_be_within_the_complexity_table(verdict):
    def parts(power):
        return [
            (
                {"varied": name, "algorithm": algorithm},
                [{"value": v, "factorization": v**power, "application": float(v)} for v in (10, 20, 40)],
            )
            for algorithm in ("default", "paper")
            for name in ("points", "clusters", "rank")
        ]

    assert verdict("complexity", parts(1.0)).holds
    assert not verdict("complexity", parts(1.2)).holds
    named = "Above are: factorization, default, with points; factorization, paper, with points."
    assert named in verdict("complexity", parts(1.2)).sentence
    assert "Above are" not in verdict("complexity", parts(1.0)).sentence
