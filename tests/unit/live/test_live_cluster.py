"""The cluster of live jobs and their lab, with jobs that only say what they were asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from runtime.core.desk import Requests
from runtime.core.node_orders import LaunchOrder
from runtime.live.cluster.cluster import LiveCluster
from runtime.live.machines.mechanisms import NOTHING
from runtime.live.machines.shared import SharedMachines
from runtime.live.transport.loop import Loop
from strategies.cluster.placements.pack import Pack
from strategies.cluster.policies.fifo import Fifo
from strategies.protocol import JobRequest, NodeId
from tests.support.clusters_of_jobs import machines_of


class Lab:
    """Jobs begin with the next turn of its loop and never end; ``play`` is called until it returns True."""

    def __init__(self, play: Callable[[Lab], bool]) -> None:
        self.loop, self.machines = Loop(), SharedMachines("0" * 16, None, NOTHING)
        self.interrupted_by, self.keeper = 0, None
        self.added: list[str] = []
        self.begun: dict[str, Any] = {}
        self.play = play

    def add(self, name: str, make: Callable[..., Any], **_: Any) -> None:
        self.added.append(name)
        self.loop.after(0.0, lambda: self.begun.update({name: make(None)}))

    def job(self, name: str) -> Any:
        return self.begun.get(name)

    def run(self) -> dict[str, Any]:
        for _ in range(100):
            self.loop.turn(0.01)
            if self.play(self):
                self.loop.close()
                return {}
        raise AssertionError("the play has no end")


def played(play: Callable[[Lab], bool], **gpus: int) -> list[tuple[Any, ...]]:
    """The cluster's notes, of jobs that want so many GPUs of one of two machines with three each."""
    notes: list[tuple[Any, ...]] = []

    def note(t: float, kind: str, /, **fields: Any) -> None:
        about = {"Placed": "workers", "Moved": "host"}.get(kind)
        notes.append((kind, fields["job"], *([fields[about]] if about else [])))

    def begin(*_: Any) -> Any:
        ends: list[Callable[[], object]] = []
        nodes = SimpleNamespace(elsewhere=None)
        return SimpleNamespace(nodes=nodes, begun=None, ends=ends, once_ended=lambda node, then: ends.append(then))

    cluster = LiveCluster(
        cast("Any", Lab(play)),
        machines_of(3, 3),
        [JobRequest(job=name, submit_s=0.0, gpus=count) for name, count in gpus.items()],
        Fifo(),
        Pack(max_machines=1),
        cast("Any", SimpleNamespace(note=note, hosts=lambda rows: None)),
        jobs={name: cast("Any", SimpleNamespace(begin=begin, crashed=str)) for name in gpus},
        use_every_s=60.0,
    )
    cluster.run()
    return [note for note in notes if note[0] in ("Placed", "Moved")]


def test_who_waits_starts_when_a_restart_has_freed_a_gpu_and_who_has_none_elsewhere_stays() -> None:
    """A worker of ``a`` moves to the last GPU of the machine of ``b``; then ``c`` has a machine with two."""
    answers: list[int | None] = []
    in_between: list[list[str]] = []

    def play(lab: Lab) -> bool:
        if len(lab.begun) == 2:
            if not answers:
                answers.append(lab.begun["j0"].nodes.elsewhere("worker:0"))
            elif len(in_between) == 5:  # the loop has turned several times, and the process has not ended
                lab.begun["j0"].ends.pop()()
            in_between.append(lab.added[:])
        return len(lab.begun) == 3

    notes = played(play, a=2, b=2, c=2)
    assert answers == [1]
    assert in_between[:6] == [["j0", "j1"]] * 5 + [["j0", "j1", "j2"]], "nobody starts before the process has ended"
    assert notes == [("Placed", "a", (0, 0)), ("Placed", "b", (1, 1)), ("Moved", "a", 1), ("Placed", "c", (0, 0))]
    answers: list[int | None] = []

    def play(lab: Lab) -> bool:
        if len(lab.begun) == 2:
            answers.append(lab.begun["j0"].nodes.elsewhere("worker:1"))
        return bool(answers)

    assert played(play, a=3, b=3) == [("Placed", "a", (0, 0, 0)), ("Placed", "b", (1, 1, 1))]
    assert answers == [None]


class Asking:
    """A job that asks for nodes, and keeps what it was told; ``over``: only its end remains."""

    def __init__(self, lab: Lab) -> None:
        self.loop, self.over, self.begun = Loop(lab.loop), False, None
        self.told: list[tuple[Any, ...]] = []
        self.nodes = SimpleNamespace(
            elsewhere=None,
            requests=Requests(),
            granted=lambda node, host: self.told.append(("granted", str(node), host)),
            refused=lambda node, reason: self.told.append(("refused", str(node))),
        )
        self.session = SimpleNamespace(receive=lambda given: self.told.append(("timer", given.tag)))

    def ask(self, node: str, cores: float = 1.0, *, low: bool = False) -> None:
        assert self.nodes.requests.ask(LaunchOrder(node=node, pending_s=0.0, cpu_cores=cores, low=low))

    @property
    def desk(self) -> Any:
        return self.nodes.requests.desk


def asked(play: Callable[[Lab, dict[str, Asking]], bool], *names: str, **more: Any) -> list[tuple[Any, ...]]:
    """The notes about nodes, of jobs of a worker and a server (1 core each) on a machine with 5 cores and 4 GPUs."""
    notes: list[tuple[Any, ...]] = []
    jobs: dict[str, Asking] = {}

    def note(t: float, kind: str, /, **fields: Any) -> None:
        if kind not in ("Submitted", "Started"):
            notes.append((kind, *(fields[name] for name in ("job", "node") if name in fields)))

    def begin(name: str, *_: Any) -> Any:
        jobs[name] = Asking(lab)
        return jobs[name]

    lab = Lab(lambda lab: play(lab, jobs))
    cluster = LiveCluster(
        cast("Any", lab),
        machines_of(4, cpu_cores=5.0),
        [JobRequest(job=name, submit_s=0.0, gpus=1, servers=1) for name in names],
        Fifo(),
        Pack(),
        cast("Any", SimpleNamespace(note=note, hosts=lambda rows: None)),
        jobs={name: cast("Any", SimpleNamespace(begin=partial(begin, name), crashed=str)) for name in names},
        use_every_s=60.0,
        start_cores={name: {"worker": 1.0, "server": 1.0} for name in names},
        **more,
    )
    cluster.run()
    return notes


def test_orders_reach_a_job_after_what_is_going_on() -> None:
    """One core is left for two jobs: what the first gives back is the next one's; both hear it in their own loops."""
    at_once: list[list[tuple[Any, ...]]] = []

    def play(lab: Lab, jobs: dict[str, Asking]) -> bool:
        if len(jobs) == 2 and not at_once:
            jobs["a"].ask("worker:1")
            jobs["b"].ask("worker:1")
            at_once.append([*jobs["a"].told, *jobs["b"].told])
        elif at_once and jobs["a"].told and not jobs["b"].told:
            jobs["a"].desk.leaving(NodeId.worker(1))
        return len(jobs) == 2 and bool(jobs["b"].told)

    notes = asked(play, "a", "b", node_wait_s=60.0)
    assert at_once == [[]]
    order = [("Granted", "a", "worker:1"), ("Returned", "a", "worker:1"), ("Granted", "b", "worker:1")]
    assert [note for note in notes if note[0] != "Placed"] == order


def test_a_job_that_is_over_hears_nothing_and_its_tasks_stay_where_they_are() -> None:
    def play(lab: Lab, jobs: dict[str, Asking]) -> bool:
        if "a" in jobs and not jobs["a"].over:
            assert jobs["a"].nodes.elsewhere("worker:0") is None
            jobs["a"].ask("worker:1")
            jobs["a"].over = True
            return False
        heard.append("a" in jobs and list(jobs["a"].told))
        return len(heard) == 5

    heard: list[Any] = []
    assert ("Granted", "a", "worker:1") in asked(play, "a")
    assert heard[-1] == []


def test_a_node_of_low_priority_is_taken_back_for_one_that_waits() -> None:
    def play(lab: Lab, jobs: dict[str, Asking]) -> bool:
        a = jobs.get("a")
        if a is not None and a.desk is not None and not asks:
            asks.append(1)
            a.ask("worker:1", 3.0, low=True)
        elif a is not None and a.told and len(asks) == 1:
            asks.append(2)
            a.ask("worker:2", 2.0)
        return a is not None and len(a.told) == 2

    asks: list[int] = []
    assert asked(play, "a", node_wait_s=60.0)[1:] == [("Granted", "a", "worker:1"), ("TakenBack", "a", "worker:1")]


def test_while_the_brain_is_away_nobody_gets_anything() -> None:
    """The request is answered when a new one is there."""

    def play(lab: Lab, jobs: dict[str, Asking]) -> bool:
        a = jobs.get("a")
        if a is not None and a.begun is not None and lab.loop.now > 0.05 and not asks:
            asks.append(a.desk.allot(NodeId.worker(0), 2.0, lambda: None))
            a.ask("worker:1")
        return a is not None and bool(a.told)

    asks: list[Any] = []
    notes = asked(play, "a", brain_away_s=(0.02, 0.6))
    assert asks == ["the Brain is lost, and nobody grants cores"]
    assert notes == [("Placed", "a"), ("BrainLost",), ("BrainBack",), ("Granted", "a", "worker:1")]


def test_a_node_that_waits_for_too_long_is_refused() -> None:
    told: list[tuple[Any, ...]] = []

    def play(lab: Lab, jobs: dict[str, Asking]) -> bool:
        a = jobs.get("a")
        if a is not None and a.desk is not None and not told:
            told.append(("asks",))
            a.ask("worker:1", 3.0)
            a.ask("worker:2", 3.0)
        told.extend(a.told if a is not None and len(a.told) == 2 else [])
        return len(told) > 1

    notes = asked(play, "a", node_wait_s=0.05)
    assert told == [("asks",), ("granted", "worker:1", 0), ("refused", "worker:2")]
    assert notes[1:] == [("Granted", "a", "worker:1"), ("Denied", "a", "worker:2")]
