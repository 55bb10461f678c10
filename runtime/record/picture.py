"""The state of a job for a view, gathered from the recorded events and notes (pure)."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from injectors.plan import Disturbance, Plan, target_of
from reading import effects
from runtime.core.evaluations import HeldTarget
from runtime.core.job import Job
from strategies.protocol import Arrived, Drop, Evaluated, Lost, NodeId, ServerLost

RECENT = 20
"""The batch processing time shown is a mean over so many iterations."""
MAX_NAMED = 4
"""Number of disturbances that a line names before it says how many more there are."""
MAX_TASKS = 8
"""Number of tasks of a machine that are named before it says how many more there are."""
LOCAL = "local"
"""The node of all tasks of a job that has one machine."""


class Lane(msgspec.Struct):
    """One worker's row of the view."""

    iterations: int = 0
    samples: int = 0
    bpt_s: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=RECENT))
    wait_s: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=RECENT))
    restarts: int = 0


class Picture:
    """The state of a job, gathered from the recorded events (pure)."""

    def __init__(self, job: Job, title: str, plan: Plan) -> None:
        self.job, self.title, self.plan = job, title, plan
        self.lanes = {worker: Lane() for worker in range(job.num_workers)}
        self.version = 0
        self.epoch = 0
        self.dropped = 0
        self.server_restarts = 0
        self.metric: float | None = None
        self.best: float | None = None
        self.target = HeldTarget(job)
        self.last_note = ""
        self.nodes: dict[NodeId, tuple[str, int]] = {}
        """Machine and incarnation of every task that runs, where a job has several machines."""
        self.known: dict[str, None] = {}
        """Machines that have had a task."""
        self.lost: dict[str, None] = {}
        """Machines whose place nobody has taken yet."""

    def event(self, t: float, event: object, commands: Any, version: int, decide_us: float, state: object) -> None:
        """Update the state from an event and the strategy's commands."""
        self.version = version
        match event:
            case Arrived(grad=grad, timings=timings):
                lane = self._lane(grad.worker)
                lane.iterations += 1
                lane.samples += grad.samples
                if grad.samples:
                    lane.bpt_s.append(timings.bpt_s)
                    lane.wait_s.append(timings.wait_s)
            case Lost():
                self._lane(event.worker).restarts += event.restarting
            case ServerLost():
                self.server_restarts += 1
            case Evaluated():
                self._on_evaluated(event)
        self.dropped += sum(len(command.grads) for command in commands if isinstance(command, Drop))

    def _lane(self, worker: int) -> Lane:
        """A worker that joins later has a row of its own from then on."""
        return self.lanes.setdefault(worker, Lane())

    def note(self, t: float, kind: str, /, **fields: Any) -> None:
        """Update the state from a note of the runtime."""
        if kind == "EpochStarted":
            self.epoch = fields["epoch"]
        elif kind == "Updated":
            self.version = max(self.version, fields["version"])
        elif kind in ("Exited", "Fenced"):
            key = NodeId(fields["role"], fields["id"])
            if self.nodes.get(key, ("", -1))[1] == fields.get("incarnation"):  # not of one that was replaced already
                del self.nodes[key]
            self.last_note = f"{t:.1f} s: {fields['role']} {fields['id']} {kind.lower()} ({fields['reason']})"
        elif kind == "Launched" and fields.get("node", LOCAL) != LOCAL:
            self.nodes[NodeId(fields["role"], fields["id"])] = (fields["node"], fields["incarnation"])
            self.known |= {fields["node"]: None}
        elif kind == "NodeLost":
            self.lost[fields["node"]] = None
            self.last_note = f"{t:.1f} s: {fields['node']} is lost ({fields['reason']})"
        elif kind == "NodeJoined":
            self.lost.pop(fields["node"], None)
            self.last_note = f"{t:.1f} s: {fields['node']} is here again, at {fields['address']}"
        elif kind == "Moved" and "node" in fields:
            self.last_note = f"{t:.1f} s: {fields['task']} starts again on {fields['node']}"

    def _on_evaluated(self, event: Evaluated) -> None:
        value = event.metrics.get(self.job.metric)
        if value is None:
            return
        self.metric = value
        better = self.best is None or (value > self.best) == self.job.higher_is_better
        self.best = value if better else self.best
        self.target.take(event.asked_s, value)

    def injected(self, t: float) -> list[Disturbance]:
        """The disturbances in effect at ``t``."""
        return [item for item in self.plan.disturbances if item.start_s <= t < item.end_s]

    def headline(self, t: float) -> str:
        """One line about the whole job."""
        epochs = f"epoch {self.epoch + 1}/{self.job.epochs}" if self.job.epochs else f"epoch {self.epoch + 1}"
        metric = "-" if self.metric is None else f"{self.metric:.4f}"
        target = ""
        if self.job.target is not None:
            target = f" (target {self.job.target:g}" + (
                f" reached at {reached_s:.1f} s)" if (reached_s := self.target.reached_s) is not None else ")"
            )
        lost = f"  lost: {', '.join(self.lost)}" if self.lost else ""
        return f"{t:6.1f} s  {epochs}  update {self.version}  {self.job.metric} {metric}{target}{lost}"

    def machines(self) -> list[str]:
        """A line for each machine with its tasks; none for a job of one machine."""
        tasks: dict[str, list[str]] = {node: [] for node in self.known}
        for task, (node, _) in self.nodes.items():
            tasks[node].append(str(task))
        return [
            f"{node}{' (lost)' if node in self.lost else ''}: {', '.join(names[:MAX_TASKS])}"
            + (f", {len(names) - MAX_TASKS} more" if len(names) > MAX_TASKS else "")
            for node, names in tasks.items()
        ]

    def injections(self, t: float) -> str:
        """The current disturbances as text."""
        found = self.injected(t)
        words = [f"{item.target} {effect(item)}" for item in found[:MAX_NAMED]]
        if len(found) > MAX_NAMED:
            words.append(f"{len(found) - MAX_NAMED} more")
        return ", ".join(words) if words else "nothing"


def effect(item: Disturbance) -> str:
    """Describe a disturbance's effect on its target, with the unit of its size: ``+0.1 s per iteration``."""
    return effects.effect(item.kind, item.magnitude, on=target_of(item.target).form)
