"""Replicas that sum their gradients: equal to a server, to each other and to themselves, whoever dies when."""

from __future__ import annotations

import os
import random
import signal
import time

import numpy as np
import pytest

from tests.live.test_faults import PACED
from tests.support.exact import ALLOW, assert_sound, assert_uses_are_exact, end_exactly
from tests.support.leaks import Start
from tests.support.runs import CONF, DIGITS, LEDGER

pytestmark = pytest.mark.live

ALLREDUCE = "topology=allreduce"
ENDLESS = (*LEDGER, *PACED, ALLREDUCE, "workload.epochs=null", "save_parameters=true")
SHORT = ("workload.epochs=2", "save_parameters=true")
MOMENTUM = ("workload.optimizer.momentum=0.9",)


def test_runs_are_bit_equal_with_and_without_deaths(start: Start) -> None:
    """A worker whose round is lost computes the same samples again on the same parameters."""
    more = (*DIGITS, *SHORT, *MOMENTUM, ALLREDUCE, "cluster.device={base_s: 0.02}", "checkpoint_every_s=null")
    calm, hit = start("calm", *more), start("hit", *more)
    for worker in (2, 0):
        hit.await_training(hit.version + 3)
        assert hit.unregister(("worker", worker))
        hit.await_events("Restored", len(hit.events("Restored")) + 1)
    calm.finish()
    hit.finish()
    assert hit.sha256 == calm.sha256
    assert len(hit.events("Lost")) == 2
    assert_sound(hit)


def test_each_sample_counts_once_whoever_dies_at_any_moment(start: Start) -> None:
    """Unpaced, so that most of the time goes into rings and updates; two die at once now and then."""
    dice = random.Random(5)
    run = start("run", *ENDLESS, "cluster.device=null")
    run.await_training(5)
    for _ in range(12):
        time.sleep(dice.random() * 0.02)
        restored = len(run.events("Restored"))
        struck = [run.unregister(("worker", worker)) for worker in dice.sample(range(4), dice.choice([1, 1, 2]))]
        assert any(struck)
        run.await_events("Restored", restored + 1)
        run.await_progress(8)
    run.interrupt()
    assert len(run.events("Restored")) >= 12
    assert not run.events("ServerLost")
    assert_uses_are_exact(run)
    assert_sound(run)


@pytest.mark.long(like="test_each_sample_counts_once_whoever_dies_at_any_moment")
def test_when_all_die_at_once_the_last_checkpoint_goes_on(start: Start) -> None:
    run = start("run", *ENDLESS)
    run.await_that(lambda: any(note["version"] > 0 for note in run.notes("Checkpointed")), "a checkpoint")
    agent = run.agent_pid
    os.kill(agent, signal.SIGSTOP)  # so that nobody is back before the last is gone
    assert all(run.unregister(("worker", worker)) for worker in range(4))
    os.kill(agent, signal.SIGCONT)
    restored = run.await_events("Restored")[-1]
    stored = {note["version"] for note in run.notes("Checkpointed")}
    assert restored["version"] in stored - {0}
    run.await_progress(20)
    end_exactly(run)
    assert_sound(run)


def test_a_worker_that_is_restarted_elsewhere_joins_with_the_parameters_of_then(start: Start) -> None:
    orders = "strategy.orders=['worker:0@0.5']"
    run = start("run", *ENDLESS, *CONF, "strategy=restarting", "scheduler.pending_s=0.5", orders, env=ALLOW)
    (joined,) = run.await_events("Joined")
    (lost,), (restored,) = run.events("Lost"), run.events("Restored")
    assert (lost["worker"], lost["restarting"]) == (0, False)
    assert restored["t"] - lost["t"] < joined["t"] - lost["t"] >= 0.5
    assert restored["workers"] == [1, 2, 3]
    run.await_progress(20)
    late = {event["grad"]["worker"] for event in run.events("Arrived") if event["t"] > joined["t"]}
    assert late == {0, 1, 2, 3}
    end_exactly(run)


@pytest.mark.long(like="test_runs_are_bit_equal_with_and_without_deaths")
@pytest.mark.parametrize("collective", ["gloo", "ddp"])
def test_torch_sums_what_the_ring_sums(start: Start, collective: str) -> None:
    """The last rounds leave workers without samples; batches are unequal."""
    more = (*DIGITS, *SHORT, *MOMENTUM, ALLREDUCE, "cluster.num_workers=3", "workload.global_batch_samples=100")
    ring = start("ring", *more).finish()
    theirs = start(collective, *more, f"topology.collective={collective}").finish()
    assert theirs.version == ring.version > 0
    np.testing.assert_allclose(theirs.parameters(), ring.parameters(), rtol=1e-4, atol=1e-5)
    assert theirs.meta["job"]["collective"] == collective
    assert_sound(theirs)


@pytest.mark.long(like="test_runs_are_bit_equal_with_and_without_deaths")
def test_gloo_meets_again_after_a_death(start: Start) -> None:
    run = start("run", *ENDLESS, "topology.collective=gloo")
    for worker in (1, 0):
        run.await_training(run.version + 5)
        assert run.unregister(("worker", worker))
        run.await_events("Restored", len(run.events("Restored")) + 1)
    run.await_progress(20)
    end_exactly(run)
    assert_sound(run)
