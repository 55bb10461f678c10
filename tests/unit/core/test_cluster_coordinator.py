"""The automaton of a cluster by itself: what it notes, and what it refuses of a runtime and of a policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from runtime.core.cluster.coordinator import ClusterCoordinator
from runtime.core.cluster.inputs import JobEnded, JobGone, JobStarted, JobSubmitted, TaskMoved, Woke
from strategies.cluster.placements.first_fit import FirstFit
from strategies.cluster.placements.pack import Pack
from strategies.cluster.policies.backfill import Backfill
from strategies.cluster.policies.fifo import Fifo
from strategies.cluster.policies.las import Las
from strategies.cluster.policies.srtf import Srtf
from strategies.protocol import (
    ClusterCommand,
    JobRequest,
    JobState,
    NodeId,
    Placement,
    Places,
    Policy,
    PreemptJob,
    ProtocolError,
    Room,
    StartJob,
)
from tests.support.clusters_of_jobs import machines_of


class Port:
    """Keeps the orders and does nothing."""

    def __init__(self) -> None:
        self.orders: list[tuple[Any, ...]] = []

    def start(self, job: JobState, places: Places) -> None:
        self.orders.append(("start", job.request.job, places.workers, job.starts))

    def preempt(self, job: JobState) -> None:
        self.orders.append(("preempt", job.request.job))

    def wake(self, at_s: float) -> None:
        self.orders.append(("wake", at_s))


def cluster_of(
    policy: Policy, *gpus: int, placement: Placement | None = None
) -> tuple[ClusterCoordinator, Port, list[Any]]:
    port, notes = Port(), list[Any]()

    def note(t: float, kind: str, /, **fields: Any) -> None:
        notes.append((t, kind, fields["job"]))

    return ClusterCoordinator(machines_of(*gpus), policy, placement or FirstFit(), port, note), port, notes


def job(name: str, gpus: int = 1, duration_s: float | None = None) -> JobSubmitted:
    return JobSubmitted(JobRequest(job=name, submit_s=0.0, gpus=gpus, duration_s=duration_s))


def test_a_preempted_job_keeps_its_gpus_until_it_is_gone_and_its_progress() -> None:
    cluster, port, _ = cluster_of(Srtf(), 1)
    cluster.receive(0.0, job("long", duration_s=100.0))
    cluster.receive(2.0, JobStarted("long"))
    cluster.receive(12.0, job("short", duration_s=5.0))
    assert port.orders[-1] == ("preempt", "long")
    assert cluster.room.free_gpus == 0
    assert cluster.jobs["long"].attained_s == 10.0
    cluster.receive(15.0, JobGone("long", attained_s=8.0))  # the rest was not stored
    assert port.orders[-1] == ("start", "short", (0,), 0)
    assert cluster.jobs["long"].remaining_at(99.0) == 92.0
    cluster.receive(20.0, JobEnded("short"))
    assert port.orders[-1] == ("start", "long", (0,), 1)


def test_the_first_in_line_keeps_its_machine_though_gpus_enough_would_be_left() -> None:
    """EASY's promise where a job must not be divided: machine 0 is the first one's at 10 s, when five GPUs are free. A
    long job of one GPU would go to that machine, and delay it; a job that has ended by then may."""
    cluster, port, _ = cluster_of(Backfill(), 4, 4, placement=Pack(max_machines=1))
    cluster.receive(0.0, job("a", 3, 10.0), job("b", 3, 100.0))
    for name in "ab":
        cluster.receive(0.0, JobStarted(name))
    cluster.receive(1.0, job("first", 4, 5.0), job("long", 1, 1000.0), job("short", 1, 9.0))
    assert port.orders[2:] == [("start", "short", (0,), 0)]
    cluster.receive(1.0, JobStarted("short"))
    cluster.receive(10.0, JobEnded("short"), JobEnded("a"))
    assert port.orders[3:] == [("start", "first", (0, 0, 0, 0), 0), ("start", "long", (1,), 0)]


def test_a_worker_that_is_restarted_goes_where_the_placement_has_a_gpu_for_it() -> None:
    cluster, port, notes = cluster_of(Fifo(), 2, 1)
    cluster.receive(0.0, job("a", 2))
    assert cluster.relocate(5.0, "a", NodeId.worker(1)) == 1
    assert cluster.gpus_used == [1, 1]
    assert cluster.jobs["a"].places == Places(workers=(0, 1))
    assert notes[-1] == (5.0, "Moved", "a")
    assert (
        cluster.relocate(6.0, "a", NodeId.worker(0)) is None
    )  # its own GPU is no other place, though it is about to be free
    cluster.receive(6.0, TaskMoved("a", NodeId.worker(1)))
    cluster.receive(6.0, job("b", 1))
    assert port.orders[-1] == ("start", "b", (0,), 0)
    assert cluster.relocate(7.0, "a", NodeId.worker(1)) is None
    assert cluster.relocate(7.0, "nobody", NodeId.worker(0)) is None
    assert cluster.gpus_used == [2, 1]
    cluster.receive(8.0, JobEnded("a"))
    assert cluster.gpus_used == [1, 0]


@pytest.mark.parametrize("ending", ["ends", "is preempted"])
def test_a_job_that_is_over_has_left_all_gpus(ending: str) -> None:
    cluster, port, _ = cluster_of(Srtf(), 2, 2)
    cluster.receive(0.0, job("a", 2, duration_s=100.0))
    cluster.receive(0.0, JobStarted("a"))
    if ending == "ends":
        assert cluster.relocate(1.0, "a", NodeId.worker(1)) == 1
        cluster.receive(1.01, job("short", 4, duration_s=1.0))
        cluster.receive(1.02, JobEnded("a"))
    else:
        cluster.receive(1.0, job("short", 4, duration_s=1.0))
        assert port.orders[-1] == ("preempt", "a")
        assert cluster.relocate(1.01, "a", NodeId.worker(1)) == 1
        cluster.receive(1.02, JobGone("a"))
    assert port.orders[-1][:2] == ("start", "short")
    cluster.receive(1.03, TaskMoved("a", NodeId.worker(1)))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("b", NodeId.worker(0), 1), "holds nothing"),
        (("a", NodeId.worker(2), 1), "has no worker:2"),
        (("a", NodeId.server(0), 1), "has no server:0"),
        (("a", NodeId.worker(0), 0), "where it has no place"),
        (("a", NodeId.worker(0), 2), "where it has no place"),
    ],
)
def test_the_books_refuse_a_move_that_cannot_be(asked: tuple[str, NodeId, int], said: str) -> None:
    room = Room(machines_of(2, 1))
    room.take(JobRequest(job="a", submit_s=0.0, gpus=2), Places(workers=(0, 0)))
    before = (room.free[:], dict(room.held))
    with pytest.raises(ProtocolError, match=said):
        room.move(*asked)
    assert (room.free, room.held) == before


def test_it_asks_to_be_woken_when_a_queue_of_las_ends_and_only_while_somebody_waits() -> None:
    cluster, port, _ = cluster_of(Las(thresholds=(20.0,)), 2)
    cluster.receive(0.0, job("a", 2))
    cluster.receive(1.0, JobStarted("a"))
    assert port.orders == [("start", "a", (0, 0), 0)]
    cluster.receive(2.0, job("b", 2))
    assert port.orders[-1] == ("wake", 11.0), "10 s on two GPUs are 20 GPU-seconds"
    before = list(port.orders)
    cluster.receive(5.0, Woke())
    assert port.orders == before, "too early, and ignored"
    cluster.receive(11.0, Woke())
    assert port.orders[-1] == ("preempt", "a"), "and it asks for no other wake-up"


def test_inputs_of_one_moment_are_decided_together_and_time_never_runs_backwards() -> None:
    cluster, port, _ = cluster_of(Srtf(), 1)
    cluster.receive(5.0, job("long", duration_s=9.0), job("short", duration_s=1.0))
    assert port.orders == [("start", "short", (0,), 0)]
    cluster.receive(4.0, JobEnded("short"))
    assert cluster.t == 5.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (JobEnded("nobody"), "JobEnded of job nobody, which is not in the cluster"),
        (JobEnded("waits"), "JobEnded of job waits, which is waiting"),
        (JobGone("runs"), "JobGone of job runs, which is starting since 0 s"),
        (JobStarted("waits"), "JobStarted of job waits, which is waiting"),
    ],
)
def test_a_report_that_cannot_be_is_refused(given: Any, said: str) -> None:
    cluster, _, _ = cluster_of(Fifo(), 1)
    cluster.receive(0.0, job("runs"), job("waits"))
    with pytest.raises(ProtocolError, match=said):
        cluster.receive(1.0, given)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"gpus": 5}, "job x: gpus=5: the cluster has 4 GPUs"),
        ({"gpus": 4}, "job x: gpus=4: has no place even on the empty cluster"),
        ({"gpus": 0}, "job x: gpus=0: must be 1 or more"),
        ({"gpus": 1, "servers": -1}, "job x: servers=-1"),
        ({"gpus": 1, "duration_s": -1.0}, "job x: duration_s=-1.0"),
        ({"gpus": 1, "duration_s": math.nan}, "job x: duration_s=nan"),
        ({"gpus": 1, "submit_s": -1.0}, "job x: submit_s=-1.0"),
        ({"gpus": 1, "job": "there"}, "job there: there is another one of this name"),
    ],
)
def test_a_job_that_cannot_be_is_refused(request_: dict[str, Any], said: str) -> None:
    cluster, _, _ = cluster_of(Fifo(), 3, 1, placement=Pack(max_machines=1))
    cluster.receive(0.0, job("there"))
    wanted = JobRequest(**{"job": "x", "submit_s": 0.0, **request_})
    assert (cluster.problem_of(wanted) or "").startswith(said)
    with pytest.raises(ValueError, match=said.partition(":")[0]):
        cluster.receive(0.0, JobSubmitted(wanted))


class Says(Policy):
    """Gives these commands at once."""

    def __init__(self, *commands: ClusterCommand, preempts: bool) -> None:
        self.commands, self.preempts = commands, preempts

    def decide(self, t: float, room: Room, placement: Placement) -> Sequence[ClusterCommand]:
        said, self.commands = self.commands, ()
        return said


HERE = Places(workers=(0,))
X = StartJob(job="x", places=HERE)


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        ((StartJob(job="nobody", places=HERE),), "Says at 0 s: StartJob of job nobody, which is not in the cluster"),
        ((StartJob(job="x", places=Places(workers=(1,))),), "job x: there is no machine 1"),
        ((StartJob(job="x", places=Places(workers=(-1,))),), "job x: there is no machine -1"),
        ((StartJob(job="x", places=Places(workers=())),), "job x: has 1 workers, and 0 of them have a place"),
        ((StartJob(job="x", places=Places(workers=(0,), servers=(0,))),), "job x: has 0 servers, and 1 of them"),
        ((PreemptJob(job="x"),), "PreemptJob of job x, which is waiting since 0 s .start 0.: only a job with GPUs"),
        ((X, X), "only a waiting job can start"),
        ((X, StartJob(job="y", places=HERE)), "workers on machine 0, which has 0 GPUs free"),
        ((), "it starts none of them"),
    ],
)
def test_an_unlawful_answer_is_refused(commands: tuple[ClusterCommand, ...], said: str) -> None:
    cluster, _, _ = cluster_of(Says(*commands, preempts=True), 1)
    with pytest.raises(ProtocolError, match=said):
        cluster.receive(0.0, job("x"), job("y"))


def test_machines_are_numbered_from_0() -> None:
    with pytest.raises(ValueError, match="machines: number 1 comes as number 0; count from 0"):
        Room(machines_of(1, 1)[1:])
