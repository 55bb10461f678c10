"""The compiled loop of asynchronous jobs: many workers, signals, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import runtime.virtual.fast_path.waves as waves_module
from runtime.native import WAVES, native
from runtime.virtual.fast_path.regular import RegularRun
from strategies.basic.asp import ASP
from strategies.basic.ssp import SSP
from strategies.protocol import Strategy
from tests.support.long_tests import rows_long_after
from tests.unit.virtual.test_regular import BATCH, COSTS, LOOPS, both, job_of, play

compiled = native(WAVES)
built = pytest.mark.skipif(compiled is None, reason="was not compiled here")
SIZES = {"rows": 8, "workers": 2, "block": 4, "servers": 1, "bound": -1}


MANY: dict[str, Strategy] = {"ssp": SSP(bound=1), "asp": ASP(data="even"), "even": SSP(bound=4, data="even")}


@pytest.mark.long(like="test_a_signal_ends_both_loops_at_the_same_gradient")
@pytest.mark.parametrize("name", MANY)
def test_the_same_rows_of_many_workers(name: str, tmp_path: Path) -> None:
    job = job_of(num_workers=70, num_samples=70 * BATCH * 4, global_batch_samples=70 * BATCH)
    with patch.object(waves_module, "TICK_EVERY", 100):
        both(tmp_path, job, MANY[name], COSTS["all"])


@pytest.mark.parametrize(
    ("looks", "costs"), rows_long_after([(4, "all"), (1, "all"), (1, "slow coordinator")], always=1)
)
def test_a_signal_ends_both_loops_at_the_same_gradient(
    looks: int, costs: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(waves_module, "TICK_EVERY", 37)
    rows = set()
    for name, module in LOOPS.items():
        answers = iter([True] * looks + [False])
        monkeypatch.setattr(RegularRun, "_look", lambda self, left=answers: next(left))
        monkeypatch.setattr(waves_module, "native", lambda _, found=module: found)
        outcome = play(tmp_path / name, job_of(), SSP(bound=2), COSTS[costs], full=False)
        assert outcome.version == 37 * (looks + 1)
        rows.add((tmp_path / name / "iterations.parquet").read_bytes())
    assert len(rows) == 1


@built
@pytest.mark.parametrize("name", ["rows", "workers", "block", "servers"])
def test_a_wave_of_nothing_is_refused(name: str) -> None:
    assert compiled is not None
    with pytest.raises(ValueError, match="a wave needs"):
        compiled.Wave(**{**SIZES, name: 0})


@built
@pytest.mark.parametrize(("stop", "states"), [(0, 1), (9, 1), (8, 0), (8, 2)])
def test_a_wave_stays_in_its_arrays(stop: int, states: int) -> None:
    assert compiled is not None
    wave = compiled.Wave(**SIZES)
    wave.stop, wave.states = stop, states
    with pytest.raises(ValueError, match="a wave without room"):
        wave.advance(False)
