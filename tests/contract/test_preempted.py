"""A job that the cluster preempts, at any moment and more than once: every strategy owes what it owes undisturbed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from strategies.protocol import Restored
from tests.contract.catalogue import NAMES, fits, has_servers, hurried, uneven_job, without_servers
from tests.support.faults import Fault, Preempted, preemptions, random_outcome, random_seconds
from tests.support.harness import HeapRun
from tests.support.laws import dead, played, unaveraged, unconserved, unlawful, unpicklable, unrepeatable
from tests.support.long_tests import long_after

FIRST = 1
PLAYERS = [name for name in NAMES if fits(name, 4)]
"""Every third one for every commit."""


def run_of(name: str, seed: int, faults: Sequence[Fault], num_workers: int = 4) -> HeapRun:
    job = uneven_job(num_workers, seed)
    if not has_servers(name):
        job, faults = without_servers(job, faults)
    return HeapRun(hurried(name), job, random_seconds(seed), faults, random_outcome(seed))


@pytest.mark.parametrize("seed", long_after(range(FIRST, 5), 1))
@pytest.mark.parametrize("name", long_after([*PLAYERS[::3], *PLAYERS[1::3], *PLAYERS[2::3]], len(PLAYERS) // 3))
def test_it_owes_what_every_strategy_owes(name: str, seed: int) -> None:
    run = run_of(name, seed, preemptions(seed))
    refused = played(run)
    assert refused + unlawful(run) + dead(run) + unconserved(run) + unaveraged(run) == []
    assert unrepeatable(partial(hurried, name), run.lines) == []
    assert unpicklable(partial(hurried, name), run.lines, every=max(2, len(run.lines) // 4)) == []
    kinds = [kind for _, kind, _ in run.notes if kind in ("Preempted", "Resumed")]
    assert kinds == ["Preempted", "Resumed"] * (len(kinds) // 2)
    assert len(kinds) >= 2
    assert run.received(Restored)


def orders_of(run: HeapRun) -> list[tuple[int, list[object]]]:
    """Of every update that counts: its version, and who computed which samples in which passes."""
    return [
        (
            order.version,
            [(run.orders[grad].worker, run.orders[grad].ranges, run.orders[grad].accum) for grad in order.grads],
        )
        for order in run.effective
    ]


@pytest.mark.parametrize("at_s", [0.25, 3.0, 7.5, 11.25])
def test_a_synchronous_job_computes_the_same_as_undisturbed(at_s: float) -> None:
    """It leaves between two rounds: nothing is in progress, and everybody has the samples that it would have."""
    seconds = [1.0, 1.25, 1.5, 2.0]
    job = uneven_job(4, 1)
    calm = HeapRun(hurried("bsp"), job, seconds).run()
    run = HeapRun(hurried("bsp"), job, seconds, [Preempted(at_s, 60.0, 5.0)]).run()
    assert orders_of(run) == orders_of(calm)
    ((_, _, about),) = [note for note in run.notes if note[1] == "Resumed"]
    assert about["pause_s"] == 5.0 + run.launch_s
    assert run.core.finished_s == calm.core.finished_s + about["pause_s"]


def test_without_grace_it_computes_a_part_again() -> None:
    """What is in progress is void: the round is computed again, by the same workers on the same samples."""
    seconds, job = [1.0, 1.0, 1.0, 4.0], uneven_job(4, 1)
    calm = HeapRun(hurried("bsp"), job, seconds).run()
    run = HeapRun(hurried("bsp"), job, seconds, [Preempted(2.0, 0.0, 5.0)]).run()
    assert orders_of(run) == orders_of(calm)
    assert run.core.finished_s == calm.core.finished_s + 5.0 + run.launch_s + 2.0
    assert run.suspensions == [2.0]


def test_grace_ends() -> None:
    """An update that takes too long is not waited for."""
    run = HeapRun(hurried("bsp"), uneven_job(4, 1), [1.0, 1.0, 1.0, 4.0], [Preempted(0.5, 2.0, 5.0)]).run()
    assert run.suspensions == [2.5]
