"""The table of profiled noise scales: which row counts, and what lies between batches."""

from __future__ import annotations

import pytest

from predictors.noise_table import NoiseRow, NoiseTable, rows_of

ROWS = [
    NoiseRow("a", 32, 0, 1.0, 10.0),
    NoiseRow("a", 32, 100, 3.0, 20.0),
    NoiseRow("a", 64, 0, 2.0, 40.0),
    NoiseRow("a", 64, 100, 5.0, 60.0),
    NoiseRow("b", 16, 0, 1.0, 1.0),
]


def table(step: int, smooth_rows: int = 1) -> NoiseTable:
    made = NoiseTable(rows=ROWS, model="a", smooth_rows=smooth_rows)
    made.at(step)
    return made


@pytest.mark.parametrize(
    ("step", "batch", "phi", "age"),
    [
        (0, 32, 10.0, 0.0),
        (100, 32, 20 / 3, 0.0),
        (0, 48, 25 / 1.5, 0.0),
        (0, 999, 20.0, 0.0),
    ],
)
def test_the_newest_step_interpolated_in_the_batch(step: int, batch: float, phi: float, age: float) -> None:
    """Both terms are interpolated, then divided: at 48, 25 / 1.5, and not (10 + 20) / 2."""
    assert table(step).phi_of(batch) == (pytest.approx(phi), age)


def test_files_are_read_and_noisy_rows_averaged() -> None:
    assert table(100, smooth_rows=3).phi_of(32)[0] == pytest.approx(15.0 / 2.0)
    good = {"model": "a", "batch_samples": "32", "step": "0", "sqr": "1.0", "var": "10.0"}
    assert rows_of([good]) == ROWS[:1]
    for bad in ({**good, "step": "soon"}, {"model": "a"}):
        with pytest.raises(ValueError, match=r"^line 3 is not model, batch_samples, step, sqr, var"):
            rows_of([good, bad])
