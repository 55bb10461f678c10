"""Times of iterations with smaller shares: STAR's T = a + c1 / processor share + c2 / bandwidth share, by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from strategies.cluster.prevention.times import added_s, iteration_s, waited_for_s
from strategies.protocol import JobLoad, Resource, TaskLoad

CORES, LINK = "cpu_cores", "link_bytes_per_s"


def task(node: str, iter_s: float | None = None) -> TaskLoad:
    """3 core-seconds with 2 cores, 100 bytes with 50 bytes/s: 1.5 and 2 s of an iteration."""
    return TaskLoad(
        node=node, host="host:0", cpu_cores=2.0, link_bytes_per_s=50.0, cpu_s=3.0, sent_bytes=100.0, iter_s=iter_s
    )


def changed(
    cores: Mapping[str, float] | None = None, link: Mapping[str, float] | None = None
) -> dict[Resource, dict[tuple[str, str], float]]:
    """Shares that tasks of job a hold now, by node."""
    return {
        CORES: {("a", node): share for node, share in (cores or {}).items()},
        LINK: {("a", node): share for node, share in (link or {}).items()},
    }


@pytest.mark.parametrize(
    ("cores", "link", "expected_s"),
    [
        (None, None, 0.0),
        (1.0, None, 3.0 / 1.0 - 1.5),
        (None, 20.0, 100.0 / 20.0 - 2.0),
        (1.0, 20.0, 1.5 + 3.0),  # one after the other
        (2.0, 50.0, 0.0),  # what it had
        (4.0, 100.0, 0.0),  # more than it used makes nothing faster
        (4.0, 20.0, 3.0),
    ],
)
def test_only_what_is_less_than_before_takes_longer(cores: float | None, link: float | None, expected_s: float) -> None:
    held = changed({"worker:0": cores} if cores else None, {"worker:0": link} if link else None)
    assert added_s("a", task("worker:0", 5.0), held) == pytest.approx(expected_s)
    assert added_s("b", task("worker:0", 5.0), held) == 0.0, "another job"


def load(*groups: tuple[str, ...]) -> JobLoad:
    """Workers that take 4, 5 and 8 s, and two servers."""
    workers = [task(f"worker:{number}", iter_s) for number, iter_s in enumerate((4.0, 5.0, 8.0))]
    return JobLoad(job="a", tasks=(*workers, task("server:0"), task("server:1")), groups=groups)


ALL = ("worker:0", "worker:1", "worker:2")


@pytest.mark.parametrize(
    ("groups", "expected_s"),
    [
        ((ALL,), 8.0),
        ((), 3 / (1 / 4 + 1 / 5 + 1 / 8)),  # each by itself
        ((ALL[:2],), 3 / (2 / 5 + 1 / 8)),  # two gradients per 5 s, one per 8 s
        ((ALL[:2], ("worker:9",)), 3 / (2 / 5 + 1 / 8)),  # nobody knows that one
    ],
)
def test_a_global_batch_by_groups(groups: tuple[tuple[str, ...], ...], expected_s: float) -> None:
    assert iteration_s(load(*groups), changed()) == pytest.approx(expected_s)


def test_the_slowest_server_is_waited_for_once() -> None:
    """One core of two: 1.5 s longer; 3 / 1.2 cores: 1 s longer, at the same time."""
    held = changed({"server:0": 1.0, "server:1": 1.2})
    assert iteration_s(load(ALL), held) == pytest.approx(8.0 + 1.5)


def test_a_slower_worker_lengthens_its_group_only() -> None:
    """Worker 0 takes 4 + 3 s: longer than worker 1, still shorter than worker 2."""
    held = changed(link={"worker:0": 20.0})
    assert iteration_s(load(ALL), held) == pytest.approx(8.0)
    assert iteration_s(load(ALL[:2]), held) == pytest.approx(3 / (2 / 7 + 1 / 8))


def test_nobody_waits_for_less_than_nothing() -> None:
    """Worker 0 waits for 1 s in its group and would wait for -2 s with a slower link."""
    assert waited_for_s(load(ALL[:2]), changed()) == pytest.approx({"worker:0": 1.0, "worker:1": 0.0, "worker:2": 0.0})
    slower = waited_for_s(load(ALL[:2]), changed(link={"worker:0": 20.0}))
    assert slower == pytest.approx(dict.fromkeys(ALL, 0.0))
