"""Real replicas of the server: one takes over, whoever is killed, and none is ever further away than the bound."""

from __future__ import annotations

import pytest

from tests.live.test_faults import PACED
from tests.support.exact import assert_sound, end_exactly
from tests.support.leaks import Start
from tests.support.runs import LEDGER, Run

pytestmark = pytest.mark.live

FOLLOWED = ("strategy=mlfabric", "strategy.num_replicas=1", "strategy.lr_rule=batch_linear", "topology.num_servers=1")
JOB = (*LEDGER, *FOLLOWED, "save_parameters=true")
UPDATES = 10
MOST = 4.0 * UPDATES
"""Of an update of the ledger with 16 samples the length is 4."""
LR, MOMENTUM = 0.05, 0.9


def has_copy(run: Run, server: int, incarnation: int) -> bool:
    """Whether this process follows."""
    there = False
    for event in [line["event"] for line in run.lines() if line["kind"] == "event"]:
        if event["type"] == "ServerJoined" and event["server"] == server:
            there = event["incarnation"] == incarnation
        if there and event["type"] == "Replicated" and (event["server"], event["grad"]) == (server, None):
            return True
    return False


def await_copy(run: Run, server: int, incarnation: int) -> None:
    run.await_that(lambda: has_copy(run, server, incarnation), f"a copy at server {server}")


def lost_versions(run: Run) -> list[int]:
    """Of every return, by how many versions."""
    found, version = [], 0
    for line in run.lines():
        if line["kind"] == "event" and line["event"]["type"] == "Restored":
            found.append(version - line["event"]["version"])
        version = line["version"] if line["kind"] == "event" else version
    return found


def test_whoever_is_killed_a_replica_takes_over_and_every_sample_counts_once(start: Start) -> None:
    """The server, who follows then, a worker, and the next server; nobody waits for a process to start."""
    run = start(
        "run", *JOB, *PACED, "checkpoint_every_s=600", "workload.epochs=null", f"strategy.divergence_max={MOST}"
    )
    run.await_training(30)
    run.unregister(("server", 0))
    await_copy(run, 0, 1)
    run.unregister(("server", 0))
    await_copy(run, 0, 2)
    run.unregister(("worker", 1))
    run.await_events("Joined")
    run.await_progress(30)
    run.unregister(("server", 1))
    await_copy(run, 1, 1)
    run.await_progress(10)
    end_exactly(run)
    assert_sound(run)
    kinds = ("ServerLost", "Restored", "ServerJoined")
    events = [line["event"] for line in run.lines() if line["kind"] == "event" and line["event"]["type"] in kinds]
    taken_over = ["ServerLost", "Restored", "ServerJoined"]
    assert [event["type"] for event in events] == [*taken_over, "ServerLost", "ServerJoined", *taken_over]
    assert [event["servers"] for event in events if event["type"] == "Restored"] == [[1], [0]]
    assert [event["holding"] for event in events if event["type"] == "ServerLost"] == [True, False, True]
    assert 0 < max(lost_versions(run)) <= UPDATES
    assert 0 < max(note["distance"] for note in run.notes("Diverged")) <= MOST
