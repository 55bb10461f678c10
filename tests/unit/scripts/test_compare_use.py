"""Use per iteration, by hand: the first sample only begins to count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from scripts.measure.compare_use import main, per_iteration


def tables(samples: int = 3) -> Any:
    rows = [
        {
            "t": float(t),
            "period_s": 1.0,
            "node": node,
            "cpu_cores": cores,
            "out_bytes_per_s": out,
            "in_bytes_per_s": 0.0,
        }
        for t in range(1, samples + 1)
        for node, cores, out in (("worker:0", 0.5, None), ("server:0", 0.25, None), ("host:0", 0.75, 100.0))
    ]
    iterations = pd.DataFrame({"t": [0.5, 1.5, 2.0, 2.5, 3.0, 9.0], "cpu_s": [0.25] * 6})
    return SimpleNamespace(nodes=pd.DataFrame(rows), iterations=iterations)


def test_sums_between_the_samples_are_divided_by_the_iterations_there() -> None:
    """Two seconds and four iterations."""
    used = per_iteration(tables())
    assert used["workers: processor seconds"] == pytest.approx(0.5 * 2 / 4)
    assert used["servers: processor seconds"] == pytest.approx(0.25 * 2 / 4)
    assert used["hosts: processor seconds"] == pytest.approx(0.75 * 2 / 4)
    assert (used["hosts: bytes out"], used["hosts: bytes in"]) == pytest.approx((50.0, 0.0))
    assert used["timings: cpu_s"] == pytest.approx(0.25)


def test_one_sample_says_nothing() -> None:
    with pytest.raises(ValueError, match="fewer than two samples"):
        per_iteration(tables(samples=1))


def test_what_is_no_run_is_refused(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("compare_use.py: ")
