"""Workers that are drawn once, and late or silent from then on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from injectors.patterns import RandomWorkers
from injectors.patterns.random_workers import ENDLESS_S
from injectors.plan import ClusterShape, Disturbance

CLUSTER = ClusterShape(num_workers=8, num_servers=1, base_iter_s=2.0)


def drawn(seed: int = 0, cluster: ClusterShape = CLUSTER, **fields: Any) -> tuple[Disturbance, ...]:
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


@pytest.mark.parametrize("seed", range(5))
def test_who_is_drawn_follows_from_the_seed_alone(seed: int) -> None:
    one = {each.target for each in drawn(seed, num_workers=1)}
    two = {each.target for each in drawn(seed, num_workers=2, fault=True)}
    assert one < two, "a second straggler joins the first"
    assert two == {each.target for each in drawn(seed, num_workers=2, sleep_iters=4.0)}


def test_none_at_all() -> None:
    assert drawn(num_workers=0) == ()
    assert drawn(sleep_iters=0.0) == ()
