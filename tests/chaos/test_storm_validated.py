"""Live storms of nodes in which the driver validates after every event that all structures of the job agree."""

from __future__ import annotations

import random
import signal
import time
from itertools import product

import pytest

from tests.chaos.test_storm_of_nodes import CONF, asked, rage
from tests.live.test_faults import ALLOW, ENDLESS, assert_sound
from tests.support.leaks import Start
from tests.support.runs import Run
from tests.support.validated_wanderer import VALIDATE

WISHES = 20
STORMS = list(product(("ps", "allreduce"), ("shards", "checkpoint"), range(6)))


def validated(start: Start, topology: str, failover: str, seed: int, validate: str = "yes") -> Run:
    """A job that asks for nodes so often."""
    strategy = "validated" if topology == "ps" else "validated_replicas"
    return start(
        "run",
        *(*ENDLESS, "--config-dir", CONF, f"strategy={strategy}", f"strategy.seed={seed}", f"seed={seed}"),
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


@pytest.mark.live
@pytest.mark.parametrize(
    ("topology", "failover", "seed"),
    [pytest.param(*storm, marks=[pytest.mark.long] if storm not in STORMS[::18] else []) for storm in STORMS],
)
@pytest.mark.timeout(240)
def test_all_structures_agree_after_every_event(
    start: Start, topology: str, failover: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRAGGLAB_ALLOW_TARGETS", "tests")  # for the replay, in this process
    run = validated(start, topology, failover, seed)
    run.await_training(5)
    rage(run, WISHES, seed)
    run.await_progress(100)
    run.interrupt()
    assert run.finished["status"] == "interrupted", run.tail()
    assert_sound(run)


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
