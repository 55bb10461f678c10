"""What rings owe in the worlds of replicas, and on hosts, whatever a plan does to these: with children, and with sums
while workers compute."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import pytest

from injectors.patterns import Elastic
from injectors.plan import ClusterShape
from runtime.core.collectives.known import Summing
from strategies.ad_psgd import ADPSGD
from strategies.basic.bsp import BSP
from strategies.eager_sgd import EagerSGD
from strategies.lgc import LGC
from strategies.lgc.slowest import SlowestApart
from strategies.parts.composed import Composed
from strategies.parts.gates import RingGate
from strategies.protocol import Strategy
from strategies.sgp import SGP
from strategies.star import Star
from strategies.star.learned import ModeLearner
from tests.contract.test_virtual import dead, different, unconserved, unlawful
from tests.support.invariants import replay
from tests.support.virtual_runs import EPOCHS, VirtualRun, draw_host_ring_world, draw_replica_world

LEARNS_SOON: dict[str, Any] = {
    "min_samples": 10,
    "refit_samples": 5,
    "epochs": 2,
    "hold_updates": 2,
    "check_every": 2,
    "max_regret_frac": 10.0,
}
DRAW = {"machines": draw_replica_world, "hosts": draw_host_ring_world}
SEEDS = range(4)
MORE_SEEDS = range(4, 20)


def make(kind: str) -> Strategy:
    """Rings that change often: nobody waited for, a while, and any lateness allowed."""
    if kind == "bsp":
        return BSP()
    if kind in ("solo", "majority"):
        return EagerSGD(mode=kind, sync_every=5 if kind == "solo" else None)
    if kind == "gossip":
        return ADPSGD(common_every=3)
    if kind == "push":
        return SGP(common_every=3, overlap_iters=1)
    if kind == "lgc":
        return LGC(k_fastest=2, topology="allreduce", reselect_iters=2)
    if kind in ("star", "learning"):
        hurried: dict[str, Any] = {"warmup_iters": 0, "redecide_iters": 2, "decision_s": 0.5, "history_iters": 30}
        own = None
        if kind == "learning":
            own = ModeLearner(topology="allreduce", **LEARNS_SOON)
        return Star(topology="allreduce", phi=300.0, waits_s=(0.0, 0.25), learning=own, **hurried)
    schedule = SlowestApart(k_fastest=2, wait_s=0.5, reselect_iters=1, window_iters=1, warmup_iters=0)
    return Composed(gate=RingGate(max_delay_versions=5), schedule=schedule)


@cache
def run_of(where: str, kind: str, num_workers: int, seed: int) -> VirtualRun:
    return VirtualRun(DRAW[where](num_workers, seed), make(kind))


CASES = [("machines", kind) for kind in ("lgc", "waiting", "star", "learning", "solo", "gossip", "push")]
CASES += [("hosts", kind) for kind in ("bsp", "lgc", "waiting", "star", "solo", "majority", "gossip", "push")]


@pytest.mark.few(7)
@pytest.mark.parametrize(("where", "kind"), CASES)
@pytest.mark.parametrize("num_workers", [2, 5])
@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.long) for seed in MORE_SEEDS)])
def test_it_is_lawful_and_ends_and_uses_every_sample_once_an_epoch(
    where: str, kind: str, num_workers: int, seed: int
) -> None:
    run = run_of(where, kind, num_workers, seed)
    assert unlawful(run) + dead(run) + unconserved(run) == []
    assert replay(run.lines, make(kind)) == []


@pytest.mark.parametrize(
    ("kind", "seed"), [("lgc", 0), ("waiting", 5), ("star", 6), ("learning", 6), ("solo", 0), ("push", 0)]
)
def test_workers_come_and_go_while_others_are_children_or_compute(kind: str, seed: int) -> None:
    world = draw_replica_world(3, seed)
    elastic = Elastic(leaves_per_hour=600.0, rejoin_s=2.0, least_workers=1)
    plan = elastic.plan(ClusterShape(num_workers=3, num_servers=0, base_iter_s=1.0), 60.0, seed)
    run = VirtualRun(msgspec.structs.replace(world, plan=plan), make(kind))
    assert len(run.events("Joined")) > 3
    assert unlawful(run) + dead(run) == []
    assert set(run.uses()) == {float(EPOCHS)}


@pytest.mark.parametrize(
    ("where", "kind"), [("machines", "waiting"), ("hosts", "waiting"), ("hosts", "bsp"), ("hosts", "solo")]
)
def test_it_does_the_same_again_to_the_byte(where: str, kind: str) -> None:
    run = run_of(where, kind, 5, 1)
    assert different(run, VirtualRun(run.world, make(kind))) == []


@pytest.mark.few(6)
@pytest.mark.parametrize("where", ["machines", "hosts"])
@pytest.mark.parametrize(
    "summing",
    [
        *(Summing("tree", 3), Summing("halving_doubling"), Summing("stragglar", 1, 0), Summing("stragglar", 2, 3)),
        *(Summing("transpose"), Summing("transpose", bound_s=0.2)),
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.long) for seed in MORE_SEEDS)])
def test_another_schedule_loses_no_sample_whoever_leaves_and_returns(where: str, summing: Summing, seed: int) -> None:
    world = DRAW[where](4, seed)
    run = VirtualRun(world, BSP(), summing=summing)
    assert unlawful(run) + dead(run) + unconserved(run) == []
    assert different(run, VirtualRun(world, BSP(), summing=summing)) == []
