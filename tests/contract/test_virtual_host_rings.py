"""What jobs without servers owe on hosts, whatever a plan does to these, with children and without."""

from __future__ import annotations

from functools import cache

import pytest

from strategies.basic.bsp import BSP
from strategies.protocol import Strategy
from tests.contract import test_virtual_rings as rings
from tests.contract.test_virtual import dead, different, unconserved, unlawful
from tests.support.invariants import replay
from tests.support.virtual_runs import VirtualRun, draw_host_ring_world

SEEDS = range(4)
MORE_SEEDS = range(4, 24)
KINDS = ("bsp", "lgc", "waiting", "star")


def make(kind: str) -> Strategy:
    return BSP() if kind == "bsp" else rings.make(kind)


@cache
def run_of(kind: str, num_workers: int, seed: int) -> VirtualRun:
    return VirtualRun(draw_host_ring_world(num_workers, seed), make(kind))


CASES = [(kind, num_workers) for kind in KINDS for num_workers in (2, 5)]


@pytest.mark.few(12)
@pytest.mark.parametrize(("kind", "num_workers"), CASES)
@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.long) for seed in MORE_SEEDS)])
def test_it_is_lawful_and_ends_and_uses_every_sample_once_an_epoch(kind: str, num_workers: int, seed: int) -> None:
    run = run_of(kind, num_workers, seed)
    assert unlawful(run) + dead(run) + unconserved(run) == []
    assert replay(run.lines, make(kind)) == []


@pytest.mark.parametrize("kind", ["bsp", "waiting"])
def test_it_does_the_same_again_to_the_byte(kind: str) -> None:
    run = run_of(kind, 5, 1)
    assert different(run, VirtualRun(run.world, make(kind))) == []


def test_the_worlds_have_in_them_what_they_are_for() -> None:
    """Losses within rings and after them, several workers on a host, links with a limit, pauses that end in a loss."""
    seen = [run_of("bsp", 5, seed) for seed in range(10)]
    assert any(run.notes("Rollback") for run in seen)
    assert any(run.notes("Fenced") for run in seen)
    hosts = [run.world.hosts for run in seen]
    assert any(one is not None and len(host.tasks) > 1 for one in hosts for host in (one.hosts if one else ()))
    assert any(host.link_bytes_per_s is not None for one in hosts if one for host in one.hosts)
