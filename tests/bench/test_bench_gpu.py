"""One GPU that four workers share: parameter servers over shared memory, and DDP over gloo on the same device.

Like with like: plain DDP and ours with the kernels that torch chooses ("free"), DDP and ours with exact ones. And plain
DDP and ours with all kernels of a gradient launched at once ("graphs"): DDP's hooks wait for gloo, so it has no graphs.
"""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.gpus import DEVICE, ON_HARDWARE, needs_gpus

from .goals import GPU_GOALS
from .launch import call
from .probe import Probe
from .report import Report
from .rounds import bracketed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600), *needs_gpus()]

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


@pytest.mark.parametrize("kernels", PEERS)
def test_step_goals(kernels: str, probe: Probe, rounds: int, report: Report) -> None:
    """A fake device shows that everything runs, not how fast."""
    job = {"model": "resnet20", "num_workers": NUM_WORKERS, "iterations": ITERATIONS, "device": DEVICE}
    peers = {name: partial(run, **job) for name, run in PEERS[kernels].items()}
    title = f"BSP iteration on one device ({DEVICE}), resnet20, {NUM_WORKERS} workers, {kernels} kernels"
    comparison = bracketed(title, peers, probe, rounds)
    assert not comparison.missing
    report.judge(title, [goal.judge(comparison) for goal in GPU_GOALS if ON_HARDWARE], comparison)
