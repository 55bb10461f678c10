"""Live storms of nodes in which the driver validates after every event that all structures of the job agree."""

from __future__ import annotations

import random
import signal
import time

import pytest

from tests.chaos.storms import is_at_its_last
from tests.chaos.test_storm_of_nodes import MEAN_GAP_S, asked
from tests.live.test_faults import ENDLESS
from tests.support.exact import ALLOW, assert_sound
from tests.support.leaks import Start
from tests.support.long_tests import rows_long_after
from tests.support.runs import CONF, Run
from tests.support.validated_wanderer import VALIDATE

WISHES = 10
KINDS = (("ps", "shards"), ("ps", "checkpoint"), ("allreduce", "checkpoint"))
"""Replicas that continue from what they hold must not be behind by more updates than a barrier allows, as these may."""
STORMS = [(*kind, seed) for kind in KINDS for seed in range(4)]


def validated(start: Start, topology: str, failover: str, seed: int, validate: str = "yes") -> Run:
    """A job that asks for nodes so often."""
    strategy = "validated" if topology == "ps" else "validated_replicas"
    return start(
        "run",
        *(*ENDLESS, *CONF, f"strategy={strategy}", f"strategy.seed={seed}", f"seed={seed}"),
        *(
            f"topology={topology}",
            "topology.transport=tcp",
            "scheduler=quota",
            "scheduler.pending_s=0.02",
            "scheduler.evict_after_s=5",
        ),
        *(f"failover={failover}", f"strategy.most_wishes={WISHES}"),
        env={**ALLOW, VALIDATE: validate},
    )


def strike(run: Run, seed: int) -> None:
    """Kill workers and servers until so much has been asked for, but none so often that the job gives it up."""
    chance, deadline = random.Random(seed), time.monotonic() + 120
    while asked(run) < WISHES and time.monotonic() < deadline:
        assert run.process.poll() is None, run.wait()[2][-3000:]
        time.sleep(chance.expovariate(1 / MEAN_GAP_S))
        role, number = chance.choice(sorted(key for key in run.pids() if key[0] in ("worker", "server")))
        if not is_at_its_last(run.lines(), role, number):
            run.unregister((role, number), signal.SIGKILL)


@pytest.mark.live
@pytest.mark.parametrize(
    ("topology", "failover", "seed"),
    rows_long_after(STORMS, always=1),
)
@pytest.mark.timeout(240)
def test_all_structures_agree_after_every_event(
    start: Start, topology: str, failover: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRAGGLAB_ALLOW_TARGETS", "tests")  # for the replay, in this process
    run = validated(start, topology, failover, seed)
    run.await_training(5)
    strike(run, seed)
    run.await_progress(100)
    run.interrupt()
    assert run.finished["status"] == "interrupted", run.tail()
    assert_sound(run)


@pytest.mark.long(like="test_all_structures_agree_after_every_event")
@pytest.mark.live
@pytest.mark.timeout(240)
def test_a_mistake_ends_the_job(start: Start) -> None:
    run = validated(start, "ps", "shards", 0, validate="planted")
    run.await_training(5)
    chance, deadline = random.Random(0), time.monotonic() + 60
    while run.process.poll() is None:
        assert time.monotonic() < deadline, (asked(run), run.tail())
        run.unregister(chance.choice([("worker", 1), ("worker", 2)]), signal.SIGKILL)
        time.sleep(0.3)
    _, out, err = run.wait()
    assert "Inconsistent" in out + err + run.tail()
