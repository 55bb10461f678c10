"""STAR's tree on the virtual clock: fewer vectors into the server, every sample once, whoever is lost."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.virtual.clock import MACHINE
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.model_state import ModelState, NoLearner
from strategies.bsp import BSP
from tests.support.harness import make_run_spec
from tests.unit.virtual.test_virtual_aggregators import NUM_PARAMETERS, TRANSFER_S, into_server
from tests.unit.virtual.test_virtual_session import Tape, finish, ledger, slow, unregister, uses, virtual_job
from tests.unit.virtual.test_virtual_transfers import SECOND

LATENCIES_S = (5.0, 2.0, 9.0, 1.0, 7.0, 3.0)


def hosts_of(latencies_s: tuple[float, ...]) -> Hosts:
    """The server on host 0, a worker on each other."""
    placement = [["server:0"], *([f"worker:{number}"] for number in range(len(latencies_s)))]
    overrides: Any = {number + 1: {"latency_ms": 1000 * one} for number, one in enumerate(latencies_s)}
    spec: dict[str, Any] = {"count": len(placement), "placement": placement, "link_mbps": 1.0, "overrides": overrides}
    return parse_hosts(spec, len(latencies_s), 1, "hosts")


def tree_job(
    strategy: BSP, latencies_s: tuple[float, ...], samples: int, learner: ModelState | None = None, **changes: Any
) -> tuple[VirtualSession, Tape]:
    tape = Tape()
    job = virtual_job(len(latencies_s), samples, **changes)
    spec = make_run_spec(job, strategy, tape)
    model = learner or NoLearner(NUM_PARAMETERS, None)
    return VirtualSession(spec, slow(), model, Costs(), SECOND, hosts=hosts_of(latencies_s)), tape


def sums(tape: Tape) -> list[tuple[int, ...]]:
    """The workers of every sum that has arrived."""
    ready = {event["grad"]["id"]: event["grad"]["worker"] for event in tape.received("Ready")}
    members = [event["grad"].get("members", ()) for event in tape.received("Arrived")]
    return [tuple(ready[member] for member in one) for one in members if one]


def test_the_tree_follows_the_latencies_of_the_hosts() -> None:
    """Worked by hand: 3 and 1 are the nearest; 3 sums 5 and 0, 1 sums 4 and 2. Two vectors a round instead of six."""
    run, tape = tree_job(BSP(tree_fanout=2, tree_wait_s=60.0), LATENCIES_S, samples=18)
    assert finish(run, tape).version == 3
    assert sorted(sums(tape)) == [(1, 4, 2), (1, 4, 2), (3, 5, 0), (3, 5, 0)]
    assert into_server(run) == pytest.approx(6 + 2 + 2)


def test_a_round_takes_what_its_transfers_take() -> None:
    """Equal latencies: six vectors one after another, or two to each inner node and two from these: 4 instead of 6."""
    times = {}
    for fanout in (None, 2):
        run, tape = tree_job(BSP(tree_fanout=fanout), (0.0,) * 6, samples=18)
        finish(run, tape)
        second, third = tape.update_times()[1:]
        times[fanout] = (third - second) / TRANSFER_S
    computing = (times[None] - 12) * TRANSFER_S  # six vectors of parameters, and six gradients
    assert computing == pytest.approx(times[2] * TRANSFER_S - (6 + 4) * TRANSFER_S)
    assert 0.9 < computing < 1.1


@pytest.mark.parametrize("lost", ["worker:1", "worker:3", "server:0"])
def test_whoever_is_lost_every_sample_counts_once(lost: str) -> None:
    for moment in range(6):
        strategy = BSP(tree_fanout=2, tree_wait_s=0.05)
        job = virtual_job(6, 60, epochs=2, checkpoint_every_s=4.0)
        more: dict[str, Any] = {"epochs": 2, "checkpoint_every_s": 4.0}
        run, tape = tree_job(strategy, (0.0,) * 6, samples=60, learner=ledger(job, strategy), **more)
        run.clock.at(3.0 + 0.0005 * moment, MACHINE, unregister(lost), run)
        run.clock.at(6.0 + 0.0007 * moment, MACHINE, unregister(lost, restarting=lost != "worker:3"), run)
        finish(run, tape)
        assert uses(run) == {2.0}, moment
    assert sums(tape)
