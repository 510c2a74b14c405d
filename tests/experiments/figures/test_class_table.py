"""The verdict says no when the figures do."""

from __future__ import annotations

from blockbasis.experiments import EXPERIMENTS, Result


def test_nothing_measured_is_no_success():
    result = Result(EXPERIMENTS["class-table"], (), ("otto",))
    assert result.verdict().mark == "not measured"
    assert result.verdict().sentence == "Nothing was measured. Not at hand: otto."
    assert not result.verdict().holds


def test_classes_must_differ_widely(verdict):
    def parts(size, radius):
        rows = [
            {"class": 0, "size": 1500, "squared_radius": 1.0},
            {"class": 1, "size": size, "squared_radius": radius},
        ]
        return [({"data": "emg"}, rows)]

    assert verdict("class-table", parts(1500, 0.1)).holds
    assert verdict("class-table", parts(300, 1.0)).holds
    assert not verdict("class-table", parts(1000, 0.5)).holds
