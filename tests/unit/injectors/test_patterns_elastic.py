"""Workers that are drawn: they leave and others join, or they are late or silent from the start."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from injectors.patterns import Elastic, RandomWorkers
from injectors.patterns.random_workers import ENDLESS_S
from injectors.plan import ClusterShape, Disturbance, build_plan, validate_plan

CLUSTER = ClusterShape(num_workers=4, num_servers=1)
HORIZON_S = 600.0


def changes(seed: int = 0, num_workers: int = 4, **fields: Any) -> list[tuple[float, str, int]]:
    plan = Elastic(**fields).plan(ClusterShape(num_workers=num_workers, num_servers=1), HORIZON_S, seed)
    return [(one.start_s, one.kind, int(one.target.partition(":")[2])) for one in plan.disturbances]


@pytest.mark.parametrize(("seed", "least"), [(0, 1), (1, 3)])
def test_a_replacement_joins_after_every_leave_with_the_next_number(seed: int, least: int) -> None:
    here, following, due = set(range(4)), 4, []
    for at_s, kind, worker in changes(seed, rejoin_s=7.0, least_workers=least):
        if kind == "leave":
            here.remove(worker)
            due.append(at_s + 7.0)
        else:
            assert (worker, at_s) == (following, pytest.approx(due.pop(0), abs=1e-5))
            following += 1
            here.add(worker)
        assert len(here) >= least
    assert following > 15
    assert all(at_s >= HORIZON_S for at_s in due)


def test_workers_leave_at_a_rate_of_their_own_and_the_last_stays() -> None:
    """60 an hour: in 600 s ten of each, and forty in all."""
    leaves = [sum(kind == "leave" for _, kind, _ in changes(seed, rejoin_s=0.0)) for seed in range(100)]
    assert 38 < sum(leaves) / len(leaves) < 42
    found = changes(leaves_per_hour=3600.0, rejoin_s=None)
    assert sorted(kind for _, kind, _ in found) == ["leave"] * 3
    assert len({worker for _, _, worker in found}) == 3
    first = {worker: at_s for at_s, _, worker in changes(rejoin_s=None, num_workers=9)}
    for at_s, _, worker in changes(rejoin_s=None, num_workers=4):
        assert first[worker] == at_s


def test_who_cannot_join_or_leave() -> None:
    for kind, target, said in (
        ("join", "worker:3", "the next worker is worker:4"),
        ("leave", "server:1", "acts on worker"),
    ):
        one = Disturbance(start_s=1.0, end_s=2.0, target=target, kind=kind, magnitude=1.0)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=said):
            validate_plan(build_plan("p", 0, HORIZON_S, [one]), CLUSTER)


EIGHT = ClusterShape(num_workers=8, num_servers=1, base_iter_s=2.0)


def drawn(seed: int = 0, cluster: ClusterShape = EIGHT, **fields: Any) -> tuple[Disturbance, ...]:
    return RandomWorkers(**fields).plan(cluster, 600.0, seed).disturbances


def test_they_are_late_from_the_start_to_the_end() -> None:
    found = drawn(num_workers=2, sleep_iters=1.5)
    assert len({one.target for one in found}) == 2
    assert {(one.start_s, one.end_s, one.kind, one.magnitude) for one in found} == {(0.0, 600.0, "delay", 3.0)}
    assert drawn(sleep_s=0.7, sleep_iters=None)[0].magnitude == 0.7
    assert {one.magnitude for one in drawn(num_workers=2, fault=True)} == {ENDLESS_S}


def test_every_worker_is_drawn_about_as_often() -> None:
    """Of 800 seeds; 100 each, a standard deviation is 9."""
    counts = Counter(drawn(seed)[0].target for seed in range(800))
    assert len(counts) == 8
    assert min(counts.values()) > 60


@pytest.mark.parametrize("seed", range(2))
def test_who_is_drawn_follows_from_the_seed_alone(seed: int) -> None:
    one = {each.target for each in drawn(seed, num_workers=1)}
    two = {each.target for each in drawn(seed, num_workers=2, fault=True)}
    assert one < two, "a second straggler joins the first"
    assert two == {each.target for each in drawn(seed, num_workers=2, sleep_iters=4.0)}
