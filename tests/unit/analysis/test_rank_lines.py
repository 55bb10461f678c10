"""Lines of ranks as StragglAR's measurements print them: forward, backward, iteration and all-reduce."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.logs.reading import read_log
from analysis.logs.step_log import LogError
from analysis.measures.straggling import straggling

LINE = (
    "\x1b[92mRank {rank} | Step {step} | Forward Time: 1490.00 ms | Backward Time: {backward:.2f} ms  | Loss: 6.1 | "
    "Iteration Time: {whole:.2f} ms | AR Time: {sums:.2f} ms | AR Buffer Size: 12549804.00 KB\x1b[0m"
)
SUM_MS = 117.0
"""Of the last rank, which waits for nobody; as on four A100 (StragglAR, motivation, Llama 3.2 3B)."""


def lines(late_ms: dict[int, float], steps: int = 50) -> list[str]:
    """Four ranks; others than the last wait in the all-reduce."""
    backward = [3020.0 + late_ms.get(rank, 0.0) for rank in range(4)]
    last = max(backward)
    return [
        LINE.format(rank=rank, step=step, backward=own, whole=1650 + last, sums=SUM_MS + last - own)
        for step in range(steps)
        for rank, own in enumerate(backward)
    ]


def test_the_rank_that_waits_least_is_the_last_one(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("\n".join(lines({2: 900.0})))
    log = read_log(tmp_path / "a.log")
    assert (log.ranks, len(log.steps)) == (("0", "1", "2", "3"), 50)
    assert log.comm_s is None or log.comm_s.shape == (50, 4)
    assert np.argmax(log.own_s, axis=1).tolist() == [2] * 50
    assert (log.own_s[0, 2] - log.own_s[0, 0]) == pytest.approx(0.9)
    assert log.round_s is not None
    assert log.round_s[0] == pytest.approx(5.57)
    (unit,) = straggling(log, barrier=True, slow_frac=0.1, ranks_per_host=None).units
    assert unit.group.name == "rank 2"


def test_ranks_that_differ_by_little_are_no_stragglers(tmp_path: Path) -> None:
    """As in that measurement: rank 2 is the last one in all steps, by half a percent."""
    (tmp_path / "a.log").write_text("\n".join(lines({2: 20.0})))
    found = straggling(read_log(tmp_path / "a.log"), barrier=True, slow_frac=0.1, ranks_per_host=None)
    assert not found.units
    assert found.ranks.set_index("rank")["share"]["2"] == pytest.approx(1.0)
    assert found.slowdown == pytest.approx(1.004, abs=0.001)


def test_a_time_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("\n".join(lines({}, 1)).replace("AR Time: 117.00", "AR Time: long", 1))
    with pytest.raises(LogError, match="line 1: AR Time long: must be a number"):
        read_log(tmp_path / "a.log")
