"""Real aggregators: gradients are summed on their way, and every sample counts once, whoever is killed."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from runtime.live.machines.doctor import missing
from strategies.protocol import NodeId
from tests.live.test_faults import PACED
from tests.support.exact import ALLOW, assert_sound, assert_uses_are_exact, end_exactly
from tests.support.invariants import problems
from tests.support.leaks import Start
from tests.support.runs import DIGITS, LEDGER, Run

pytestmark = pytest.mark.live

TREE = (*LEDGER, "strategy=bsp", "strategy.tree_fanout=2", "save_parameters=true")
"""Four workers: two pairs, each with an aggregator."""


def sums(run: Run) -> list[int]:
    """The number of gradients in every sum that arrived."""
    return [len(event["grad"]["members"]) for event in run.events("Arrived") if event["grad"].get("members")]


def assert_exact(run: Run, epochs: int) -> None:
    assert (run.finished["status"], set(run.parameters().tolist())) == ("done", {float(epochs)})
    assert_sound(run)


def test_most_gradients_arrive_in_sums_and_every_sample_is_used_once(start: Start) -> None:
    run = start("run", *TREE, "strategy.tree_wait_s=0.2", "workload.epochs=4").finish()
    assert_exact(run, 4)
    assert sum(sums(run)) > 2 * run.finished["version"]  # of four in an update


@pytest.mark.long(like="test_most_gradients_arrive_in_sums_and_every_sample_is_used_once")
@pytest.mark.parametrize("words", [("strategy=bsp",), ("strategy=star_h", "strategy.modes=[ssgd]")])
def test_it_trains_as_without_a_tree(start: Start, words: tuple[str, ...]) -> None:
    """BSP on the virtual clock, which adds the same gradients in rank order: equal up to rounding."""
    job = (*DIGITS, "workload.epochs=1", "save_parameters=true")
    flat = start("flat", *job, "strategy=bsp", "runtime=virtual", "cluster.device={base_s: 0.01}").finish()
    run = start("run", *job, *words, "strategy.tree_fanout=2", "strategy.tree_wait_s=1").finish()
    assert sums(run)
    assert run.finished["version"] == flat.finished["version"]
    np.testing.assert_allclose(run.parameters(), flat.parameters(), rtol=0, atol=1e-5)


PLACES = "cluster.hosts.placement=[[server:0],[worker:0],[worker:1],[worker:2],[worker:3]]"
HOSTS = ("cluster=hosts", "cluster.hosts.count=5", PLACES, "cluster.hosts.real_cores_per_core=0.05")
SIZE = ("workload.task.num_samples=20000", "workload.global_batch_samples=500", "topology.num_servers=1")
"""A vector has 80 kB, an epoch 40 rounds."""


def vectors_a_round(run: Run, host: str) -> float:
    """What comes into a host for an update, by the counter of its link.

    The end of a job is not sampled, which is more of a short one: so updates count up to the last sample.
    """
    sampled = [line for line in run.lines() if line["kind"] == "event" and line["event"]["type"] == "Observed"]
    uses = [(line["event"]["period_s"], node) for line in sampled for node in line["event"]["nodes"]]
    into = sum(period_s * node["in_bytes_per_s"] for period_s, node in uses if node["node"] == host)
    return float(into / (4 * run.finished["num_parameters"]) / sampled[-1]["version"])


def on_hosts(start: Start, name: str, *words: str, env: dict[str, str] | None = None) -> Run:
    if lack := missing("network") or missing("links"):
        pytest.skip(f"{lack.reason}; {lack.cure}")
    job = (*TREE, *HOSTS, *SIZE, "strategy.tree_wait_s=5", "runtime.telemetry_every_s=0.1", *words)
    return start(name, *job, env=env)


@pytest.mark.long(like="test_most_gradients_arrive_in_sums_and_every_sample_is_used_once")
def test_the_servers_link_carries_half_and_the_record_shows_it(start: Start) -> None:
    """Two vectors a round instead of four: one of a worker, and a sum of three. The first round goes directly."""
    direct = ("strategy.tree_fanout=null", "strategy.tree_wait_s=null", "workload.epochs=1")
    direct_run = on_hosts(start, "direct", *direct).finish()
    run = on_hosts(start, "summed", "workload.epochs=1").finish()
    assert_exact(run, 1)
    assert (direct_run.finished["version"], run.finished["version"]) == (40, 40)
    assert sums(run) == [3] * 39
    assert run.events("Started")[0]["places"]["aggregator:1"] == "host:2"
    assert 0.4 < vectors_a_round(run, "host:0") / vectors_a_round(direct_run, "host:0") < 0.6  # (4 + 39 * 2) / 160


@pytest.mark.long(like="test_most_gradients_arrive_in_sums_and_every_sample_is_used_once")
@pytest.mark.parametrize("struck", [("aggregator:0",), ("aggregator:1", "worker:1", "server:0")])
def test_who_is_killed_on_a_host(start: Start, struck: tuple[str, ...]) -> None:
    run = on_hosts(start, "run", "strategy.tree_wait_s=0.2", *PACED, "workload.epochs=2", env=ALLOW)
    run.await_training(5)
    for task in struck:
        run.await_progress(10)
        run.unregister(NodeId.parse(task), signal.SIGKILL)
    assert_exact(run.finish(), 2)


FOLLOWED = ("strategy=mlfabric", "strategy.num_replicas=1", "strategy.lr_rule=batch_linear", "topology.num_servers=1")
JOB = (*LEDGER, *FOLLOWED, "save_parameters=true")
UPDATES = 10
MOST = 4.0 * UPDATES
"""Of an update of the ledger with 16 samples the length is 4."""


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


HELD = (*LEDGER, "strategy=mlfabric", "strategy.lr_rule=batch_linear", "save_parameters=true")


def delays(run: Run) -> list[int]:
    """Of every applied gradient, in versions."""
    versions: dict[int, int] = {}
    found = []
    for line in run.lines():
        if line["kind"] != "event":
            continue
        if line["event"]["type"] == "Arrived":
            versions[line["event"]["grad"]["id"]] = line["event"]["grad"]["version"]
        applies = [command for command in line["commands"] if command["type"] == "Apply"]
        for before, command in enumerate(reversed(applies)):
            found += [line["version"] - 1 - before - versions[grad] for grad in command["grads"]]
    return found


def overdue(run: Run) -> int:
    """Transfers that were overdue so far."""
    return max(line["state"]["overdue"] for line in run.lines() if line["kind"] == "event" and line.get("state"))


def test_no_update_is_later_than_the_bound_and_every_sample_is_used_once(start: Start) -> None:
    run = start("run", *HELD, "workload.epochs=4").finish()
    assert (run.finished["status"], set(run.parameters().tolist())) == ("done", {4.0})
    assert_sound(run)
    assert 0 <= min(delays(run)) <= max(delays(run)) <= 8
    assert {event["num_bytes"] for event in run.events("Ready")} == {4 * run.finished["num_parameters"]}


@pytest.mark.long(like="test_no_update_is_later_than_the_bound_and_every_sample_is_used_once")
def test_a_paused_worker_whose_turn_it_is_holds_nobody_up(start: Start) -> None:
    """It is paused again and again, until that was in its turn; nobody counts it as lost meanwhile."""
    patient = ("runtime.lease_s=60", "runtime.iteration_deadline_s=60", "cluster.device={base_s: 0.01}")
    # an epoch is longer than the test: who waits at its end for the last samples may have to wait for a paused worker
    run = start("run", *HELD, *patient, "workload.epochs=null", "workload.task.num_samples=40000")
    run.await_training(5)
    pid = run.pid_of("worker", 1)
    for _ in range(200):
        os.kill(pid, signal.SIGSTOP)
        run.await_progress(15)
        os.kill(pid, signal.SIGCONT)
        run.await_progress(10)
        if overdue(run):
            break
    assert overdue(run)
    run.interrupt()
    assert not run.events("Lost")
    assert_uses_are_exact(run)
    assert problems(run.lines()) == []
