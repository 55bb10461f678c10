"""Where gangs and servers go, by hand; and Muri's interleaving with the numbers of its definition."""

from __future__ import annotations

import itertools
import random

import pytest

from strategies.cluster.placements.balanced_ps import (
    BalancedPS,
    interleaved_s,
    interleaving_gamma,
    mean_gamma,
)
from strategies.cluster.placements.first_fit import FirstFit
from strategies.cluster.placements.pack import Pack
from strategies.cluster.placements.spread import Spread
from strategies.cluster.placements.workers import on_fewest
from strategies.protocol import JobRequest, Machine, Placement, Places, Room, TaskDemand
from tests.support.clusters_of_jobs import machines_of


def job(name: str, gpus: int, servers: int = 0, **tasks: TaskDemand) -> JobRequest:
    return JobRequest(job=name, submit_s=0.0, gpus=gpus, servers=servers, **tasks)


def phases(cpu_s: float, gpu_s: float) -> TaskDemand:
    return TaskDemand(cpu_s=cpu_s, gpu_s=gpu_s)


def places(placement: Placement, request: JobRequest, room: Room) -> Places:
    found = placement.place(request, room)
    assert found is not None
    return found


def taken(*free: int) -> Room:
    """Machines of 8 GPUs of which so many are free."""
    room = Room(machines_of(*[8] * len(free)))
    for number, left in enumerate(free):
        if left < 8:
            room.take(job(f"old{number}", 8 - left), Places(workers=(number,) * (8 - left)))
    return room


@pytest.mark.parametrize(
    ("one", "other", "seconds", "gamma"), [((2, 6), (5, 3), 9.0, 0.8889), ((2, 6), (2, 6), 12.0, 0.6667)]
)
def test_gamma(one: tuple[float, float], other: tuple[float, float], seconds: float, gamma: float) -> None:
    """Muri's definition for two resources, worked by hand: max(2, 3) + max(6, 5) = 9; 16 / 18."""
    assert interleaved_s(phases(*one), phases(*other)) == seconds
    assert interleaving_gamma(phases(*one), phases(*other)) == pytest.approx(gamma, abs=5e-5)


def test_gamma_is_1_for_opposite_tasks_symmetric_and_never_above_1() -> None:
    assert interleaving_gamma(phases(3, 5), phases(5, 3)) == 1.0
    assert interleaving_gamma(phases(0, 0), phases(0, 0)) is None
    draws = random.Random(0)
    for _ in range(100):
        one, other = (phases(draws.random(), draws.random()) for _ in range(2))
        gamma = interleaving_gamma(one, other)
        assert gamma is not None
        assert gamma == pytest.approx(interleaving_gamma(other, one))
        assert 0 < gamma <= 1


def test_where_workers_go() -> None:
    assert places(FirstFit(), job("a", 3), taken(2, 4, 8)).workers == (1, 1, 1)
    assert places(FirstFit(), job("a", 7), taken(2, 4, 3)).workers == (0, 0, 1, 1, 1, 1, 2)
    assert places(Pack(), job("a", 3), taken(8, 4, 3)).workers == (2, 2, 2)
    assert places(Pack(), job("a", 3), taken(8, 4, 5)).workers == (1, 1, 1)
    assert places(Pack(), job("a", 7), taken(2, 6, 5, 1)).workers == (1,) * 6 + (3,)
    assert places(Spread(), job("a", 5), taken(2, 4, 3)).workers == (1, 1, 2, 0, 1)


def test_pack_uses_the_fewest_machines_there_are() -> None:
    """By trying all sets of machines."""
    draws = random.Random(1)
    for _ in range(200):
        free = [draws.randint(0, 4) for _ in range(6)]
        gpus = draws.randint(1, max(1, sum(free)))
        if gpus > sum(free):
            continue
        sizes = (n for n in range(1, 7) for some in itertools.combinations(free, n) if sum(some) >= gpus)
        fewest = next(sizes)
        found = on_fewest(gpus, free)
        assert found is not None
        assert len(set(found)) == fewest
        assert all(found.count(machine) <= free[machine] for machine in found)
        assert on_fewest(gpus, free, fewest) == found
        assert fewest == 1 or on_fewest(gpus, free, fewest - 1) is None


def test_servers_next_to_the_workers_in_turns_or_where_fewest_are() -> None:
    assert places(FirstFit(), job("a", 5, 3), taken(2, 4, 8)).servers == (2, 2, 2)
    assert places(FirstFit(), job("a", 7, 3), taken(2, 4, 3)).servers == (0, 1, 2)
    room = Room(machines_of(4, 0, 0))
    assert places(Pack(servers_on="cpu"), job("a", 2, 3), room).servers == (1, 2, 1)
    assert places(Spread(), job("a", 2, 4), room).servers == (0, 1, 2, 0)


def test_balanced_ps_goes_by_room_then_number_of_servers_then_space() -> None:
    """STAR section IV-D2, its order worked by hand."""
    machines = [
        Machine(number=0, gpus=4, cpu_cores=8.0),
        Machine(number=1, gpus=0, cpu_cores=4.0),
        Machine(number=2, gpus=0, cpu_cores=16.0),
        Machine(number=3, gpus=0, cpu_cores=1.0),
    ]
    server = TaskDemand(cpu_cores=2.0)
    request = job("a", 1, 6, server=server)
    # most space first (2: 8 servers, 0: 4, 1: 2), one each; then again; 3 has no room for any
    found = places(BalancedPS(), request, Room(machines)).servers
    assert sorted(found) == [0, 0, 1, 1, 2, 2]
    assert sorted(places(BalancedPS(balance=False), request, Room(machines)).servers) == [0, 2, 2, 2, 2, 2]


def test_balanced_ps_interleaves_where_all_else_is_equal() -> None:
    room = Room(machines_of(2, 2, 2))
    for number, about in enumerate([phases(2, 6), phases(5, 3), phases(2, 6)]):
        room.take(job(f"old{number}", 1, worker=about), Places(workers=(number,)))
    request = job("a", 1, 1, server=phases(2, 6))
    assert mean_gamma(phases(2, 6), 1, room) == pytest.approx(0.8889, abs=5e-5)
    assert mean_gamma(phases(2, 6), 0, room) == pytest.approx(0.6667, abs=5e-5)
    assert places(BalancedPS(), request, room).servers == (1,)
    assert places(BalancedPS(gamma=False), request, room).servers == (0,)
