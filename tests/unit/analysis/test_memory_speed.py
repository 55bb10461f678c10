"""How processor time follows the memory's speed: the law, its two halves, and what a record says, by hand."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.measures.memory_speed import Law, by_window, fit, halves, readings, speeds, windows
from analysis.measures.metrics import summarise
from analysis.records.load import RecordError, Run, load_run
from analysis.reports.pages.run import run_page
from tests.support.records import Story, apply, compute

PARTS = {"wait_s": 0.0, "pull_s": 0.1, "data_s": 0.1, "compute_s": 0.1, "send_s": 0.1}
COPIES = ((0.0, 1e-4), (0.2, 3e-4), (0.4, 1e-4), (1.0, 2e-4), (3.1, 4e-4))


def rows(*given: tuple[int, float, float]) -> pd.DataFrame:
    return pd.DataFrame(given, columns=["window", "copy_s", "longer"])


def record(
    folder: Path, *iterations: tuple[float, float], runtime: str = "live", copies: tuple[tuple[float, float], ...] = ()
) -> Run:
    """One worker; ``iterations``: when each gradient arrived, and its processor time; ``copies``: readings by time."""
    received = Story("bsp", runtime=runtime, num_workers=1, global_batch_samples=8, target=None)
    received.started()
    received.lines[-1]["commands"] = [compute(0)]
    found = [(t, "copy", copy_s) for t, copy_s in copies] + [(t, "arrival", cpu_s) for t, cpu_s in iterations]
    number = 0
    for t, what, seconds in sorted(found):
        if what == "copy":
            received.note(t, "MemoryProbed", copy_s=seconds)
        else:
            received.arrived(t, 0, number, [apply(number), compute(0)], iteration=number, cpu_s=seconds, **PARTS)
            number += 1
    received.finished(3.5)
    return load_run(received.write(folder / runtime))


def test_a_law_that_holds_exactly_is_found() -> None:
    law, copies = Law(1.2, 1.5e-4, 0.57), [1.0e-4, 1.2e-4, 1.9e-4, 2.5e-4]
    found = fit(rows(*((number, copy_s, law.longer(copy_s)) for number, copy_s in enumerate(copies))))
    assert found.exponent == pytest.approx(0.57)
    assert found.usual_s == pytest.approx(float(np.prod(copies)) ** 0.25)
    assert [found.longer(copy_s) for copy_s in copies] == pytest.approx([law.longer(copy_s) for copy_s in copies])


def test_copies_that_are_equal_determine_a_level_alone() -> None:
    assert fit(rows((0, 1e-4, 1.0), (1, 1e-4, 4.0))) == pytest.approx(Law(2.0, 1e-4, 0.0))


def test_even_windows_predict_odd_ones() -> None:
    """A copy that takes four times as long makes work take twice as long: the exponent is 1/2, the level sqrt(2).

    Odd windows took 1.25 and 1.6 times as long as the model says where 1 and 2 are predicted.
    """
    found = halves(rows((0, 1e-4, 1.0), (1, 1e-4, 1.25), (2, 4e-4, 2.0), (3, 4e-4, 1.6)))
    assert found is not None
    assert found.law == pytest.approx(Law(sqrt(2), 2e-4, 0.5))
    assert found.even == pytest.approx((2, 0.0, (sqrt(2) - 1 + 1 - sqrt(2) / 2) / 2), abs=1e-12)
    assert found.odd == pytest.approx((2, (0.2 + 0.25) / 2, (sqrt(2) / 1.25 - 1 + 1 - sqrt(2) / 1.6) / 2))
    assert halves(rows((0, 1e-4, 1.0), (2, 4e-4, 2.0))) is None


def test_windows_have_the_median_reading_and_the_mean_processor_time(tmp_path: Path) -> None:
    """In the window of the last reading nothing arrives; the window before it has no reading."""
    live = record(tmp_path, (0.5, 0.02), (0.9, 0.04), (1.5, 0.06), (2.5, 0.01), copies=COPIES)
    virtual = record(tmp_path, (0.5, 0.02), (1.0, 0.02), runtime="virtual")
    assert by_window(live).to_dict() == {0: 1e-4, 1: 2e-4, 3: 4e-4}
    found = windows([(live, virtual), (live, virtual)])
    once = [[0, 1e-4, pytest.approx(1.5)], [1, 2e-4, pytest.approx(3.0)]]
    assert found[["window", "copy_s", "longer"]].to_numpy().tolist() == [*once, *once]
    assert speeds(live, Law(1.0, 1e-4, 1.0)) == pytest.approx([1.0, 0.5, 0.5, 0.25])


def test_records_without_readings(tmp_path: Path) -> None:
    """Of a virtual run, of a run without hosts, and of older versions."""
    virtual = record(tmp_path, (0.5, 0.02), runtime="virtual")
    assert readings(virtual).empty
    assert windows([(virtual, virtual)]).empty
    assert halves(windows([])) is None
    assert "memory_copy_s" not in summarise(virtual)
    with pytest.raises(RecordError, match="no reading of the memory's speed; only live runs on emulated hosts"):
        speeds(virtual, Law(1.0, 1e-4, 1.0))


def test_summary_and_page_have_the_usual_reading(tmp_path: Path) -> None:
    live = record(tmp_path, (0.5, 0.02), copies=COPIES)
    summary = summarise(live)
    expected = {"readings": 5, "median": 2e-4, "p90": 3.6e-4, "p99": 3.96e-4}
    assert summary["memory_copy_s"] == pytest.approx(expected)
    page = run_page(live, summary)
    assert "copying 4 MiB of memory" in page
    assert "0.200" in page
