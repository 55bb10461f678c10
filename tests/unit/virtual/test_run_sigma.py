"""A run's own speed: runs of different seeds differ although nothing straggles."""

from __future__ import annotations

from math import log
from pathlib import Path
from statistics import fmean, stdev

import msgspec
import pytest

from injectors.plan import build_plan
from injectors.schedule import Schedule
from runtime.record.recorder import Recorder
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.jitter import run_factor
from runtime.virtual.tasks.model_state import NoModelState
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.protocol import Strategy
from tests.support.harness import make_job, make_run_spec
from tests.support.labs import run_alone

SIGMA = 0.05


def jct_s(run_dir: Path, seed: int, strategy: Strategy, costs: Costs) -> float:
    """Of an undisturbed job."""
    run_dir.mkdir()
    size = {"num_workers": 6, "num_servers": 2, "num_samples": 6 * 32 * 40, "global_batch_samples": 6 * 32}
    job = make_job(**size, epochs=1, max_time_s=1000.0, seed=seed)
    spec = make_run_spec(job, strategy, Recorder(run_dir), run_dir)
    plan = Schedule(build_plan("none", 0, 1000.0, []))
    return run_alone(VirtualSession(spec, plan, NoModelState(64, None), costs, None)).t


def test_its_factors_have_mean_one_and_the_spread_that_was_asked_for() -> None:
    factors = [run_factor(seed, SIGMA) for seed in range(1000)]
    assert fmean(factors) == pytest.approx(1.0, abs=0.005)
    assert stdev(map(log, factors)) == pytest.approx(SIGMA, rel=0.08)
    assert run_factor(7, 0.0) == 1.0


@pytest.mark.parametrize("seed", [0, 1])
def test_strategies_of_one_seed_have_the_same_speed(seed: int, tmp_path: Path) -> None:
    """A job without devices takes its factor times as long, whatever its strategy."""
    plain = Costs(compute_base_s=0.01, compute_per_sample_s=1e-3, latency_s=1e-3, update_base_s=1e-3)
    wide = msgspec.structs.replace(plain, run_sigma=SIGMA)
    for strategy in (BSP(), SSP(bound=2)):
        name = type(strategy).__name__
        as_fitted, as_run = (jct_s(tmp_path / f"{name}{one.run_sigma}", seed, strategy, one) for one in (plain, wide))
        assert as_run / as_fitted == pytest.approx(run_factor(seed, SIGMA))
