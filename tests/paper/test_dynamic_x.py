"""Dynamic x-order against its source: STAR, section IV-B."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from strategies.basic.dynamic_x import DynamicX
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import GroupsGate, Verdict
from strategies.protocol import AnyEvent, Restored, Started
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


def test_a_worker_without_a_time_counts_as_the_median_of_the_others() -> None:
    """Beyond the paper. The first iteration of a process is not measured, and worker 0 restarts after it: when
    1, 1 and 4 s of the others are known, it is put with the two quick ones."""
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
