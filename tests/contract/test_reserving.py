"""Strategies that reserve what a mode needs, with a cluster that refuses now and then, owe what all others do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from runtime.core.inputs import Observed
from runtime.core.job import ComputeOrder
from strategies.protocol import NodeUse, Reserve, Reserved
from tests.contract.catalogue import HURRIES, MODES, faults, make, uneven_job
from tests.support.faults import random_outcome, random_seconds
from tests.support.harness import HeapRun
from tests.support.laws import dead, played, unaveraged, unconserved, unlawful, unpicklable, unrepeatable
from tests.support.long_tests import long_after

RESERVING = ("star_h", "star_ahead", "star_ml")
SETTINGS = {"prevent": True, "when_calm": "ssgd", "max_pause_frac": 1.0}


class Moody:
    """Refuses two questions of three; what is given back is accepted."""

    def __init__(self) -> None:
        self.asked: list[Reserve] = []

    def reserve(self, t: float, command: Reserve) -> Reserved:
        self.asked.append(command)
        ok = not command.demands or len(self.asked) % 3 == 0
        return Reserved(t=t, ok=ok, reason="" if ok else "not now")


def slow_in_turns(seed: int) -> Callable[[int, ComputeOrder], float]:
    """Random durations, of which one worker's are four times as long for a while, then another's, then nobody's.

    Without that SSGD is the best mode for all of a third of the runs: whoever took long once is not slow the next time.
    """
    seconds = random_seconds(seed)

    def took(worker: int, order: ComputeOrder) -> float:
        slow = (seed + order.grad_id // 40) % 5  # 4: nobody
        return seconds(worker, order) * (4.0 if worker == slow else 1.0)

    return took


def run_of(name: str, mode: str, seed: int) -> tuple[HeapRun, Moody]:
    """The scenario of every strategy, with what servers use twice a second."""
    cluster = Moody()
    strategy = make(name, **{**HURRIES[name], **SETTINGS})
    outcome = random_outcome(seed) if mode != "calm" else (lambda order: "ok")
    job = uneven_job(4, seed)
    run = HeapRun(strategy, job, slow_in_turns(seed), faults(mode, seed, 4), outcome, reservations=cluster)
    used = Observed(0.5, (NodeUse(node="server:0", cpu_cores=0.4),))
    for step in range(1, 200):
        run.push(0.5 * step, 0, lambda t: run.core.receive(t, used))
    return run, cluster


@pytest.mark.parametrize("seed", long_after(range(1, 5), 1))
@pytest.mark.parametrize("mode", long_after(reversed(MODES), always=1))
@pytest.mark.parametrize("name", long_after(RESERVING, always=2))
def test_it_owes_what_every_strategy_owes(name: str, mode: str, seed: int) -> None:
    run, cluster = run_of(name, mode, seed)
    refused = played(run)
    assert refused + unlawful(run) + dead(run) + unconserved(run) + unaveraged(run) == []
    again = partial(make, name, **{**HURRIES[name], **SETTINGS})
    assert unrepeatable(again, run.lines) + unpicklable(again, run.lines, every=max(2, len(run.lines) // 4)) == []
    answers = run.received(Reserved)
    assert {answer.ok for answer, asked in zip(answers, cluster.asked, strict=True) if asked.demands} == {True, False}
    assert {type(command) for command in run.commands} <= run.core.strategy.needs
