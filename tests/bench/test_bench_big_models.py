"""The start of tasks with a large model: only what each needs is drawn, and it is drawn where it is used."""

from __future__ import annotations

from functools import partial

import pytest

from .goals import BIG_MODEL_GOALS
from .launch import call
from .probe import Probe
from .replay import recorded_clock
from .report import Report
from .rounds import bracketed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600), pytest.mark.benchmark(timer=recorded_clock)]

PEERS = {
    "servers": {"parts of the whole": "parts_of_the_whole", "parts in place": "parts_in_place"},
    "a worker's module": {"filled module": "filled_module", "unfilled module": "unfilled_module"},
}


@pytest.mark.parametrize("who", PEERS)
def test_the_start_with_resnet101(who: str, probe: Probe, rounds: int, report: Report) -> None:
    peers = {name: partial(call, "big_models", function) for name, function in PEERS[who].items()}
    comparison = bracketed(f"start with ResNet-101, {who}", peers, probe, rounds)
    report.judge(comparison.title, [BIG_MODEL_GOALS[who].judge(comparison)], comparison)
