"""A live job whose strategy asks for nodes at random, while any process of it is killed: every sample is used once.

Another storm: ``STRAGGLAB_CHAOS_SEED=17 make chaos``. What is asked for follows from the seed and the order of events.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

import pytest

from tests.live.test_faults import ENDLESS
from tests.support.exact import ALLOW, assert_sound, end_exactly
from tests.support.leaks import Start
from tests.support.runs import CONF, Run

SEED = int(os.environ.get("STRAGGLAB_CHAOS_SEED", "0"))
WANDERING = (
    *(*CONF, "strategy=wandering", f"strategy.seed={SEED}", f"seed={SEED}"),
    *("topology.transport=tcp", "scheduler=quota", "scheduler.pending_s=0.02", "scheduler.evict_after_s=5"),
)
MEAN_GAP_S = 0.4
OF_NODES = ("Launch", "Retire", "Repartition")
WISHES = (*OF_NODES, "Allocate", "Restart")


def commands(run: Run) -> Counter[str]:
    """How often the strategy has given each command."""
    return Counter(one["type"] for line in run.lines() if line["kind"] == "event" for one in line["commands"])


def asked(run: Run) -> int:
    return sum(commands(run)[kind] for kind in WISHES)


def rage(run: Run, until: int, seed: int) -> Counter[str]:
    """SIGKILL of random workers and servers, newcomers among them, until so much has been asked for; kills by role."""
    chance, killed = random.Random(f"{seed}/kills"), Counter[str]()
    deadline = time.monotonic() + 120
    while asked(run) < until:
        assert time.monotonic() < deadline, run.tail()
        assert run.process.poll() is None, (run.wait(), run.tail())
        time.sleep(chance.expovariate(1 / MEAN_GAP_S))
        nodes = [key for key in run.pids() if key[0] in ("worker", "server")]
        victim = next((key for key in chance.sample(nodes, len(nodes)) if run.unregister(key, signal.SIGKILL)), None)
        killed[victim[0] if victim else "nobody"] += 1
    return killed


@pytest.mark.long(like="tests/chaos/test_storm_validated.py::test_all_structures_agree_after_every_event")
@pytest.mark.live
@pytest.mark.parametrize(
    ("failover", "wishes"), [("checkpoint", 36), pytest.param("shards", 160, marks=pytest.mark.long)]
)
@pytest.mark.timeout(240)
def test_every_sample_is_used_once_whatever_is_asked_for(
    start: Start, failover: str, wishes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRAGGLAB_ALLOW_TARGETS", "tests")  # for the replay, in this process
    run = start("run", *ENDLESS, *WANDERING, f"failover={failover}", f"strategy.most_wishes={wishes}", env=ALLOW)
    run.await_training(5)
    begun_s = time.monotonic()
    killed = rage(run, wishes, SEED)
    print(f"\nseed {SEED}: {dict(commands(run))}, killed {dict(killed)} in {time.monotonic() - begun_s:.1f} s", end="")
    run.await_progress(200)  # whoever interrupts a switch gets no final parameters
    end_exactly(run)
    assert_sound(run)
    assert all(commands(run)[kind] >= wishes / 12 for kind in OF_NODES)
    assert all(killed[role] >= wishes / 36 for role in ("worker", "server"))
