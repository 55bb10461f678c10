"""Live jobs whose strategy asks for nodes at random, while any process is killed: every sample is used once.

The driver validates after every event that all structures of the job agree. Another storm: ``STRAGGLAB_CHAOS_SEED=17
make chaos``. What is asked for follows from the seed and the order of events.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

import pytest

from tests.chaos.storms import is_at_its_last
from tests.live.test_faults import ENDLESS
from tests.support.exact import ALLOW, assert_sound, end_exactly
from tests.support.leaks import Start
from tests.support.long_tests import rows_long_after
from tests.support.runs import CONF, Run
from tests.support.validated_wanderer import VALIDATE

SEED = int(os.environ.get("STRAGGLAB_CHAOS_SEED", "0"))
MEAN_GAP_S = 0.4
OF_NODES = ("Launch", "Retire", "Repartition")
WISHES = (*OF_NODES, "Allocate", "Restart")
FEW, MANY = 10, 36
"""Wishes of a storm; of many, each kind is among them."""
KINDS = (("ps", "shards"), ("ps", "checkpoint"), ("allreduce", "checkpoint"))
"""Replicas that continue from what they hold must not be behind by more updates than a barrier allows, as these may."""
STORMS = [(*kind, seed, FEW) for kind in KINDS for seed in range(4)]
STORMS += [("ps", "checkpoint", 4, MANY), ("ps", "shards", 5, 160)]


def validated(start: Start, topology: str, failover: str, seed: int, wishes: int = FEW, validate: str = "yes") -> Run:
    """A job that asks for nodes so often."""
    strategy = "validated" if topology == "ps" else "validated_replicas"
    return start(
        "run",
        *(*ENDLESS, *CONF, f"strategy={strategy}", f"strategy.seed={seed}", f"seed={seed}"),
        *(f"topology={topology}", "topology.transport=tcp", f"failover={failover}"),
        *("scheduler=quota", "scheduler.pending_s=0.02", "scheduler.evict_after_s=5", f"strategy.most_wishes={wishes}"),
        env={**ALLOW, VALIDATE: validate},
    )


def commands(run: Run) -> Counter[str]:
    """How often the strategy has given each command."""
    return Counter(one["type"] for line in run.lines() if line["kind"] == "event" for one in line["commands"])


def asked(run: Run) -> int:
    return sum(commands(run)[kind] for kind in WISHES)


def strike(run: Run, seed: int, wishes: int) -> Counter[str]:
    """Kill workers and servers until so much was asked for, none so often that the job gives it up; kills by role."""
    chance, killed, deadline = random.Random(f"{seed}/kills"), Counter[str](), time.monotonic() + 120
    while asked(run) < wishes:
        assert time.monotonic() < deadline, run.tail()
        assert run.process.poll() is None, run.wait()[2][-3000:]
        time.sleep(chance.expovariate(1 / MEAN_GAP_S))
        role, number = chance.choice(sorted(key for key in run.pids() if key[0] in ("worker", "server")))
        if not is_at_its_last(run.lines(), role, number):
            killed[role] += run.unregister((role, number), signal.SIGKILL)
    return killed


@pytest.mark.live
@pytest.mark.parametrize(("topology", "failover", "seed", "wishes"), rows_long_after(STORMS, always=1))
@pytest.mark.timeout(240)
def test_every_sample_is_used_once_and_all_structures_agree(
    start: Start, topology: str, failover: str, seed: int, wishes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRAGGLAB_ALLOW_TARGETS", "tests")  # for the replay, in this process
    run = validated(start, topology, failover, SEED + seed, wishes)
    run.await_training(5)
    killed = strike(run, SEED + seed, wishes)
    print(f"\nseed {SEED + seed}: {dict(commands(run))}, killed {dict(killed)}", end="")
    run.await_progress(200)  # whoever interrupts a switch gets no final parameters
    end_exactly(run)
    assert_sound(run)
    if wishes >= MANY:
        assert all(commands(run)[kind] >= wishes / 12 for kind in OF_NODES)
        assert all(killed[role] >= wishes / 36 for role in ("worker", "server"))


@pytest.mark.long(like="test_every_sample_is_used_once_and_all_structures_agree")
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
