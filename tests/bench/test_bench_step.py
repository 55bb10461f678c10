"""One synchronous training iteration of 4 workers: ours next to DDP, a Ray parameter server and pure computation."""

from __future__ import annotations

import os
import sys
from functools import partial

import pytest

from .goals import STEP_GOALS
from .launch import call
from .probe import Probe
from .replay import recorded_clock, replay_peer
from .report import Report
from .rounds import Comparison, bracketed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600), pytest.mark.benchmark(timer=recorded_clock)]

NUM_WORKERS = 4
ITERATIONS = {"mlp": 150, "resnet20": 15}
"""Model -> iterations: some seconds of measuring per peer and round."""
RAY_PYTHON = os.environ.get("STRAGGLAB_RAY_PYTHON", sys.executable)
PEERS = {
    "pure compute": partial(call, "peers.pure_compute", "bsp_step"),
    "ddp gloo": partial(call, "peers.ddp_gloo", "bsp_step"),
    "ray ps": partial(call, "peers.ray_ps", "bsp_step", python=RAY_PYTHON, timeout_s=240.0, tidy=False),
    "ours tcp": partial(call, "ours", "bsp_step", transport="tcp", num_servers=1),
    "ours tcp, 16 bits": partial(call, "ours", "bsp_step", transport="tcp", num_servers=1, transfer_bits=16),
    "ours shm": partial(call, "ours", "bsp_step", transport="shm", num_servers=1),
}


@pytest.fixture(scope="module", params=ITERATIONS)
def model(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def comparison(model: str, probe: Probe, rounds: int) -> Comparison:
    job = {"model": model, "num_workers": NUM_WORKERS, "iterations": ITERATIONS[model]}
    peers = {name: partial(run, **job) for name, run in PEERS.items()}
    return bracketed(f"BSP iteration, {model}, {NUM_WORKERS} workers", peers, probe, rounds)


@pytest.mark.parametrize("name", PEERS)
def test_bsp_step(name, comparison, benchmark):
    replay_peer(benchmark, comparison, name)


def test_step_goals(model: str, comparison: Comparison, report: Report):
    report.judge(comparison.title, [goal.judge(comparison) for goal in STEP_GOALS[model]], comparison)
