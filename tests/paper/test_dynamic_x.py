"""Dynamic x-order against its source: STAR, section IV-B."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from strategies.basic.dynamic_x import DynamicX
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import GroupsGate, Verdict
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
