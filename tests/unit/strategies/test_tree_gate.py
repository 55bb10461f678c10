"""Strategies with a tree owe what every strategy owes, and what becomes of sums whose aggregator is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runtime.core import inputs
from strategies.basic.bsp import BSP
from strategies.parts.sending.subtrees import assign_aggregators
from strategies.protocol import Failed, Strategy, Timings
from strategies.star import Star
from tests.contract.catalogue import HURRIES, MODES, scenario
from tests.paper.test_star_modes import ready, second_round, sends, summed
from tests.support.harness import HeapRun
from tests.support.laws import dead, different, played, unaveraged, unconserved, unlawful, unpicklable, unrepeatable

AGGREGATOR = "aggregator"
NAMES = ["aggregator:0", "aggregator:1"]


TREE: dict[str, Any] = {"tree_fanout": 2, "tree_wait_s": 0.5}
MAKES: dict[str, Callable[[], Strategy]] = {
    "bsp": lambda: BSP(**TREE),
    "star": lambda: Star(**TREE, **HURRIES["star_h"], phi=300.0, kappa=1.0, max_pause_frac=1.0),
    "star, ahead": lambda: Star(**TREE, **HURRIES["star_h"], phi=300.0, kappa=1.0, pause=False),
    "star, noise measured": lambda: Star(**TREE, **HURRIES["star_h"], kappa=1.0),
    "star, groups": lambda: Star(**TREE, **HURRIES["star_h"], phi=300.0, kappa=0.1, modes=["ssgd", "dynamic"]),
}


def played_in(name: str, mode: str, seed: int) -> tuple[HeapRun, list[str]]:
    run = scenario(MAKES[name](), 5, mode, seed)
    return run, played(run)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", MAKES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(2))
def test_it_owes_what_all_strategies_owe(name: str, mode: str, seed: int) -> None:
    make = MAKES[name]
    run, refused = played_in(name, mode, seed)
    assert refused + unlawful(run) + dead(run) + unconserved(run) + unaveraged(run) == []
    assert different(run, played_in(name, mode, seed)[0]) == []
    assert unrepeatable(make, run.lines) + unpicklable(make, run.lines, every=20) == []
    assert run.sums or name != "bsp"


def third_round(changed: dict[int, float]) -> list[tuple[tuple[int, ...], str | None]]:
    """What is sent in the third round, if some parameters took another time on their way to the second one."""
    rig = second_round(BSP(tree_fanout=2, tree_wait_s=5.0))
    for worker in range(6):
        ready(rig, worker, 11.0, changed.get(worker))
    for place in (0, 1):
        summed(rig, place, 12.0)
    before = len(sends(rig))
    for worker in range(6):
        ready(rig, worker, 13.0)
    return sends(rig)[before:]


def test_the_tree_follows_latencies_and_members() -> None:
    """A latency is a moving average: worker 1 is further away than 5 at 12 s, and is not at 4 s."""
    inner = {seconds: sorted(grads[0] for grads, _ in third_round({1: seconds})) for seconds in (12.0, 4.0)}
    assert inner == {12.0: [3, 5], 4.0: [1, 3]}
    rig = second_round(BSP(tree_fanout=2, tree_wait_s=5.0))
    rig.lose(3, 10.5, restarting=False)
    for worker in (0, 1, 2, 4, 5):
        ready(rig, worker, 11.0)
    assert sends(rig)[6:] == [((1, 0, 4), "aggregator:0"), ((5, 2), "aggregator:1")]


def test_aggregators_are_on_the_host_if_there_is_one_and_shared_evenly() -> None:
    places = {"worker:3": "host:1", "worker:1": "host:1", "aggregator:0": "host:1", "aggregator:1": "host:2"}
    assert assign_aggregators([(3, 1)], NAMES, places, sharing=True) == [{3: "aggregator:0", 1: "aggregator:0"}]
    assert assign_aggregators([(3, 1)], NAMES, places, sharing=False) == [{3: "aggregator:0", 1: "aggregator:1"}]
    assert assign_aggregators([(3,), (5,), (1, 0)], NAMES, {}, sharing=True) == [
        {3: "aggregator:0"},
        {5: "aggregator:1"},
        {1: "aggregator:0", 0: "aggregator:1"},
    ]


def test_what_a_lost_aggregator_had_is_computed_again() -> None:
    """Its other sums are not touched, and until it is back gradients go to the servers themselves."""
    rig = second_round(BSP(tree_fanout=2, tree_wait_s=5.0))
    for worker in (1, 4, 2, 3, 5, 0):
        ready(rig, worker, 11.0)
    rig.core.receive(12.0, inputs.AuxiliaryLost(AGGREGATOR, 1))
    failed = [line.event for line in rig.lines if isinstance(line.event, Failed)]
    assert [(event.worker, event.reason, event.retryable) for event in failed] == [
        (worker, "aggregator:1 is lost", True) for worker in (1, 4, 2)
    ]
    assert rig.sums[0].grad_id in rig.dropped
    summed(rig, 1, 13.0)
    before = len(sends(rig))
    for worker in (1, 4, 2):
        ready(rig, worker, 14.0)
    assert sends(rig)[before:] == [((1, 4, 2), "aggregator:1")]
    assert [order.worker for _, order in rig.sent[-3:]] == [1, 4, 2]
    for worker in (1, 4, 2):
        rig.arrive(worker, 15.0)
    assert rig.core.version == 2
    rig.core.receive(16.0, inputs.AuxiliaryJoined(AGGREGATOR, 1))
    for worker in (1, 4, 2):
        ready(rig, worker, 17.0)
    assert len(rig.sums) == 3


def test_a_sum_of_nobody_is_discarded() -> None:
    """All its workers are lost, and the aggregator had sent it before."""
    rig = second_round(BSP(tree_fanout=2, tree_wait_s=5.0))
    for worker in (1, 4, 2):
        ready(rig, worker, 11.0)
    for worker in (1, 4, 2):
        rig.lose(worker, 12.0)
    (order,) = rig.sums
    members = tuple(member.grad_id for member in order.members)
    rig.core.receive(13.0, inputs.GradientArrived(order.grad_id, -1, Timings(), members=members))
    assert order.grad_id in rig.dropped
    assert not [line for line in rig.lines if isinstance(line.event, Failed)]
