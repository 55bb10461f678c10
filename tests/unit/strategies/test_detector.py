"""Who is a straggler at equal work: slow on the average, in most records, and in the newest ones."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from strategies.antdt.detector import StragglerDetector


@pytest.mark.parametrize(
    ("own", "found"),
    [
        ([9.0, 9.0, 9.0, 9.0], [2]),
        ([1.0, 1.0, 1.0, 9.0], []),  # a single pause
        ([9.0, 9.0, 9.0, 1.0, 1.0], []),  # it has recovered
        ([9.0], [2]),
        ([1.0, 9.0], []),  # of few records all must be slow
    ],
)
def test_a_straggler_is_slow_in_most_records_and_in_the_newest(
    own: list[float], found: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times of the others are 1; the mean of all four is at most 3, and the slow one must have 1.5 times as much."""
    min_records = 3 if len(own) < 3 else 2
    detector = StragglerDetector(min_records=min_records)
    detector.monitor = SimpleNamespace(min_records=min_records)  # type: ignore[assignment]
    records = {0: [1.0] * 4, 1: [1.0] * 4, 2: own, 3: [1.0] * 4}
    monkeypatch.setattr(StragglerDetector, "paces", lambda self, span: records)
    assert detector.stragglers("short") == found
