"""One GPU that four workers share: parameter servers over shared memory, and DDP over gloo on the same device.

Like with like: plain DDP and ours with the kernels that torch chooses ("free"), DDP and ours with exact ones. And plain
DDP and ours with all kernels of a gradient launched at once ("graphs"): DDP's hooks wait for gloo, so it has no graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

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
    "free": {
        "ddp gloo": partial(call, "peers.ddp_gloo", "bsp_step"),
        "ours shm": partial(call, "ours", "bsp_step", transport="shm", num_servers=1, exact=False),
    },
    "graphs": {
        "ddp gloo": partial(call, "peers.ddp_gloo", "bsp_step"),
        "ours shm": partial(call, "ours", "bsp_step", transport="shm", num_servers=1, exact=False, graphs=True),
    },
    "exact": {
        "ddp gloo": partial(call, "peers.ddp_gloo", "bsp_step", exact=True),
        "ours shm": partial(call, "ours", "bsp_step", transport="shm", num_servers=1),
        "ours tcp": partial(call, "ours", "bsp_step", transport="tcp", num_servers=1),
    },
}
"""By kernels; each comparison is a step of its own for whoever has little time on a GPU."""


@pytest.fixture(scope="module")
def compared(probe: Probe, rounds: int) -> Callable[[str], Comparison]:
    @cache
    def of(kernels: str) -> Comparison:
        job = {"model": "resnet20", "num_workers": NUM_WORKERS, "iterations": ITERATIONS, "device": DEVICE}
        peers = {name: partial(run, **job) for name, run in PEERS[kernels].items()}
        title = f"BSP iteration on one device ({DEVICE}), resnet20, {NUM_WORKERS} workers, {kernels} kernels"
        return bracketed(title, peers, probe, rounds)

    return of


@pytest.mark.parametrize(("kernels", "name"), [(kernels, name) for kernels in PEERS for name in PEERS[kernels]])
def test_step(kernels, name, compared, benchmark):
    replay_peer(benchmark, compared(kernels), name)


@pytest.mark.skipif(not ON_HARDWARE, reason="a fake device shows that it runs, not how fast")
@pytest.mark.parametrize("kernels", PEERS)
def test_step_goals(kernels, compared, report: Report):
    comparison = compared(kernels)
    report.judge(comparison.title, [goal.judge(comparison) for goal in GPU_GOALS], comparison)
