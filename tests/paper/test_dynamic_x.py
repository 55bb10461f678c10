"""Dynamic x-order against its source: STAR, section IV-B."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from strategies.basic.dynamic_x import DynamicX
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import GroupsGate, Verdict
from strategies.parts.monitoring.base import cluster_by_ratio
from strategies.protocol import AnyEvent, Apply, Restored, Started
from tests.support.faults import Crash
from tests.support.harness import HeapRun, Rig, make_job


def eager(**changes: object) -> DynamicX:
    """Clusters after every iteration, and by the first one already."""
    return DynamicX(**{"regroup_iters": 1, "warmup_iters": 0, **changes})  # type: ignore[arg-type]


class Division:
    """A schedule that divides the workers once."""

    looks_at = (GroupsGate,)

    def __init__(self, groups: Callable[[Sequence[int]], list[list[int]]]) -> None:
        self.groups = groups

    def meet(self, peers: Parts) -> None:
        self.gate = peers.one(GroupsGate)

    def then(self, event: AnyEvent) -> list[Verdict]:
        return self.gate.regroup(self.groups(event.workers)) if isinstance(event, Started | Restored) else []


class Fixed(Composition):
    """The gate with groups that never change."""

    def __init__(self, groups: Callable[[Sequence[int]], list[list[int]]], data: str = "dynamic") -> None:
        self.groups, self.data = groups, data
        self.__post_init__()

    def compose(self) -> Parts:
        return Parts(gate=GroupsGate(), schedule=Division(self.groups))


def alone(workers: Sequence[int]) -> list[list[int]]:
    return [[worker] for worker in workers]


def together(workers: Sequence[int]) -> list[list[int]]:
    return [list(workers)]


# ---- clusters -------------------------------------------------------------------------------------------------------


def test_workers_with_similar_times_are_a_cluster() -> None:
    """Section IV-B; the bound is section III's. Within 20 %, which is STAR's bound of a straggler: members of one
    cluster are none to each other."""
    assert cluster_by_ratio([1, 1.05, 1.1, 2, 2.1, 4], 1.2) == [[0, 1, 2], [3, 4], [5]]
    assert cluster_by_ratio([1, 1, 1, 4], 1.2) == [[0, 1, 2], [3]]


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=8))
def test_clusters_do_not_depend_on_the_unit_of_time(times_s: list[float]) -> None:
    """Section IV-B names no threshold; a cut at 50 ms, as in STAR's code, would depend on the unit."""
    assert cluster_by_ratio(times_s, 1.2) == cluster_by_ratio([1024 * seconds for seconds in times_s], 1.2)


def test_a_cut_in_milliseconds_is_caught() -> None:
    """Negative control: an absolute bound makes one cluster of two times, and two of them when all takes 60 times as
    long."""

    def by_bound(values: list[float]) -> int:
        return 1 + sum(after - before > 0.05 for before, after in pairwise(values))

    assert by_bound([0.01, 0.05]) != by_bound([60 * 0.01, 60 * 0.05])
    assert len(cluster_by_ratio([0.01, 0.05], 1.2)) == len(cluster_by_ratio([60 * 0.01, 60 * 0.05], 1.2))


# ---- updates --------------------------------------------------------------------------------------------------------


def of_four(**changes: object) -> HeapRun:
    """Workers that need 1, 1, 1 and 4 s, for 40 s, with batches of two."""
    return HeapRun(eager(**changes), make_job(global_batch_samples=8), [1, 1, 1, 4]).run()


def test_every_cluster_makes_updates_of_its_own() -> None:
    """Section IV-B: the reports of each cluster make an update. One round together, as nothing is known yet; from 4
    s on an update a second of the three, and one every 4 s of the fourth: 1 + 36 + 9."""
    run = of_four()
    assert [sorted(grad.worker for grad in grads) for _, _, grads in run.applied[:1]] == [[0, 1, 2, 3]]
    later = [(t, [grad.worker for grad in grads]) for t, _, grads in run.applied[1:]]
    assert sorted(t for t, workers in later if workers == [0, 1, 2]) == [float(t) for t in range(5, 41)]
    assert sorted(t for t, workers in later if workers == [3]) == [float(t) for t in range(8, 41, 4)]
    assert run.updates == 46


def test_the_rate_is_scaled_by_the_share_of_the_cluster() -> None:
    """Section IV-C, "Scaling learning rate after switching"."""
    applies = {
        (len(command.grads), command.weights[0], command.lr_scale)
        for command in of_four().commands
        if isinstance(command, Apply)
    }
    assert applies == {(4, 1 / 8, 1.0), (3, 1 / 6, 0.75), (1, 1 / 2, 0.25)}


def test_six_workers_make_three_clusters() -> None:
    """Section IV-B, agglomerative clustering of predicted times."""
    job = make_job(num_workers=6, global_batch_samples=6)
    run = HeapRun(eager(), job, [1, 1.05, 1.1, 2, 2.1, 4]).run()
    assert {tuple(grad.worker for grad in grads) for _, _, grads in run.applied[1:]} == {(0, 1, 2), (3, 4), (5,)}


def test_a_worker_that_becomes_slow_leaves_its_cluster_and_returns() -> None:
    """Section IV-B. Worker 3 needs 4 s from its 10th iteration to its 14th. The others wait for it once or twice, then
    no longer, and again when it is as fast as they.
    """
    iterations = [0] * 4

    def seconds(worker: int, order: object) -> float:
        iterations[worker] += 1
        return 4.0 if worker == 3 and 10 <= iterations[3] < 15 else 1.0

    run = HeapRun(eager(window_s=5.0), make_job(max_time_s=60.0), seconds).run()
    sizes = [(t, len(order.grads)) for t, order, _ in run.applied]
    assert {size for t, size in sizes if t < 10} == {4}
    assert {size for t, size in sizes if 18 <= t <= 24} == {3, 1}
    assert {size for t, size in sizes if t > 45} == {4}


def test_clusters_are_formed_again_only_after_regroup_iters() -> None:
    """Beyond the paper. With ten iterations between two clusterings and four workers: none before the fortieth
    gradient.
    """
    run = HeapRun(DynamicX(regroup_iters=10, warmup_iters=0), make_job(max_time_s=60.0), [1, 1, 1, 4]).run()
    assert {len(order.grads) for t, order, _ in run.applied if t <= 40} == {4}
    assert {len(order.grads) for t, order, _ in run.applied if t > 40} == {3, 1}


def test_a_restarting_worker_keeps_its_predicted_time() -> None:
    """Beyond the paper: the slow one crashes; the other three do not wait for it before, during or after."""
    run = HeapRun(eager(), make_job(max_time_s=30.0), [1, 1, 1, 4], [Crash(10.0, 3, 5.0)]).run()
    assert {len(order.grads) for t, order, _ in run.applied if t > 4} == {3, 1}
    assert {t for t, order, _ in run.applied if t > 4 and len(order.grads) == 3} == {float(t) for t in range(5, 31)}


def test_a_worker_without_a_time_counts_as_the_median_of_the_others() -> None:
    """Beyond the paper. The first iteration of a process is not measured, and worker 0 restarts after it: when
    1, 1 and 4 s of the others are known, it is put with the two quick ones.
    """
    rig = Rig(eager(warmup_iters=1), make_job(global_batch_samples=8)).start()
    for worker in range(4):
        rig.arrive(worker)
    rig.lose(0)
    rig.join(0)
    for worker, compute_s in enumerate((4.0, 1.0, 1.0, 4.0)):
        rig.arrive(worker, compute_s=compute_s)
    for worker in range(3):
        rig.arrive(worker)
    assert [[grad.worker for grad in grads] for _, _, grads in rig.applied] == [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2]]


# ---- identities -----------------------------------------------------------------------------------------------------


def test_without_tolerance_every_worker_is_its_own_cluster() -> None:
    """Section IV-B: clusters of similar workers, with a tolerance of 0."""
    run = HeapRun(eager(tolerance_frac=0.0), make_job(max_time_s=20.0), [1, 1.25, 1.5, 1.75]).run()
    assert {len(order.grads) for t, order, _ in run.applied if t > 4} == {1}
