"""The cluster of live jobs and their lab, with jobs that only say what they were asked."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from runtime.live.cluster.cluster import LiveCluster
from runtime.live.machines.mechanisms import NOTHING
from runtime.live.machines.shared import SharedMachines
from runtime.live.transport.loop import Loop
from strategies.cluster.placements.pack import Pack
from strategies.cluster.policies.fifo import Fifo
from strategies.protocol import JobRequest
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
