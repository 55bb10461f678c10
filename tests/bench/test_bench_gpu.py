"""One GPU that four workers share: parameter servers over shared memory, and DDP over gloo on the same device.

Like with like: plain DDP and ours with the kernels that torch chooses ("free"), DDP and ours with exact ones.
"""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.gpus import DEVICE, ON_HARDWARE, needs_gpus

from .goals import GPU_GOALS
from .launch import call
from .probe import Probe
from .replay import recorded_clock, replay_peer
from .report import Report
from .rounds import Comparison, bracketed

pytestmark = [
    pytest.mark.bench,
    pytest.mark.timeout(3600),
    pytest.mark.benchmark(timer=recorded_clock),
    *needs_gpus(),
]

NUM_WORKERS, ITERATIONS = 4, 200 if ON_HARDWARE else 10
PEERS = {
    "ddp gloo": partial(call, "peers.ddp_gloo", "bsp_step"),
    "ddp gloo, exact": partial(call, "peers.ddp_gloo", "bsp_step", exact=True),
    "ours shm": partial(call, "ours", "bsp_step", transport="shm", num_servers=1),
    "ours tcp": partial(call, "ours", "bsp_step", transport="tcp", num_servers=1),
    "ours shm, free": partial(call, "ours", "bsp_step", transport="shm", num_servers=1, exact=False),
}


@pytest.fixture(scope="module")
def comparison(probe: Probe, rounds: int) -> Comparison:
    job = {"model": "resnet20", "num_workers": NUM_WORKERS, "iterations": ITERATIONS, "device": DEVICE}
    peers = {name: partial(run, **job) for name, run in PEERS.items()}
    return bracketed(f"BSP iteration on one device ({DEVICE}), resnet20, {NUM_WORKERS} workers", peers, probe, rounds)


@pytest.mark.parametrize("name", PEERS)
def test_step(name, comparison, benchmark):
    replay_peer(benchmark, comparison, name)


@pytest.mark.skipif(not ON_HARDWARE, reason="a fake device shows that it runs, not how fast")
def test_step_goals(comparison: Comparison, report: Report):
    report.judge(comparison.title, [goal.judge(comparison) for goal in GPU_GOALS], comparison)
