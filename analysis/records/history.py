"""The fate of every gradient: one pass over the lines of a record.

A command counts only if it was carried out. Two things void it: the loss of a server, or of a worker that the others
cannot continue without (until ``Restored``), and the job's end before it (then the line's ``version`` is lower than
its ``Apply`` commands would make it).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from analysis.records.halting import halts
from analysis.records.schema import (
    Apply,
    Arrived,
    Compute,
    Drop,
    Failed,
    Grad,
    Jumped,
    Line,
    Lost,
    Parked,
    Restored,
    RollingBack,
    ServerLost,
    Timings,
)


class Arrival(msgspec.Struct, gc=False):
    """One pushed gradient and its fate: ``applied``, ``dropped``, ``void`` (rolled back), ``open`` or ``empty``.

    ``issued_s`` is when its Compute was carried out. Applied fields stay filled in if a rollback voided it.
    """

    t: float
    grad: Grad
    timings: Timings
    loss: float | None
    issued_s: float
    held: bool
    fate: str
    applied_version: int | None = None
    applied_t: float | None = None
    staleness: int | None = None


class Update(msgspec.Struct, gc=False):
    """One update that was carried out; ``void`` if a rollback undid it."""

    t: float
    version: int
    grads: tuple[int, ...]
    samples: int
    lr_scale: float
    void: bool = False


@dataclass
class History:
    """The arrivals and updates of a run, in order. Build it with :func:`build_history`."""

    arrivals: list[Arrival] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    version: int = 0
    halted: bool = False
    going_back: bool = False
    given_up: list[tuple[float, int]] = field(default_factory=list)
    """(t, samples) of gradients that were dropped permanently."""
    _held: set[tuple[int, float]] = field(default_factory=set)
    _issued: dict[int, float] = field(default_factory=dict)
    _grads: dict[int, Arrival] = field(default_factory=dict)

    def arrived(self, t: float, event: Arrived) -> None:
        """Add an arrived gradient; an empty one has nothing to apply."""
        grad, timings = event.grad, event.timings
        # a Compute that waited for data began when data came, which only the worker's durations show
        begun = t - timings.pull_s - timings.data_s - timings.compute_s - timings.send_s
        issued = self._issued.pop(grad.worker, begun)
        held = (grad.worker, issued) in self._held
        fate = "open" if grad.samples else "empty"
        arrival = Arrival(t, grad, timings, event.loss, begun if held else issued, held, fate)
        self.arrivals.append(arrival)
        if grad.samples:
            self._grads[grad.id] = arrival

    def forget(self, worker: int) -> None:
        """Record that the worker's Compute ended without a gradient."""
        self._issued.pop(worker, None)

    def halt(self) -> None:
        """Void all open gradients: what has not been applied by now never will be."""
        self.halted = True
        self._issued.clear()
        for arrival in self._grads.values():
            arrival.fate = "void" if arrival.fate == "open" else arrival.fate

    def restored(self, version: int) -> None:
        """Undo the updates after ``version``."""
        self.halt()
        self.halted, self.going_back, self.version = False, False, version
        for update in reversed(self.updates):
            if not update.void and update.version <= version:
                break
            update.void = True
            for grad_id in update.grads:
                if grad_id in self._grads:
                    self._grads[grad_id].fate = "void"

    def applied(self, t: float, command: Apply) -> None:
        """Add one update and mark its gradients as applied."""
        self.version += 1
        samples = 0
        for arrival in (self._grads[grad_id] for grad_id in command.grads if grad_id in self._grads):
            samples = arrival.grad.round_samples or samples + arrival.grad.samples
            arrival.fate, arrival.applied_version, arrival.applied_t = "applied", self.version, t
            arrival.staleness = self.version - 1 - arrival.grad.version
        self.updates.append(Update(t, self.version, command.grads, samples, command.lr_scale))

    def jumped(self, note: Jumped) -> None:
        """Count the skipped updates; gradients that wait are so many iterations and updates later."""
        self.version += note.updates
        for arrival in self._grads.values():
            if arrival.fate == "open":
                grad, skipped = arrival.grad, note.iterations.get(str(arrival.grad.worker), 0)
                arrival.grad = msgspec.structs.replace(
                    grad, version=grad.version + note.updates, iteration=grad.iteration + skipped
                )

    def dropped(self, t: float, command: Drop) -> None:
        """Mark gradients as not used."""
        for arrival in (self._grads[grad_id] for grad_id in command.grads if grad_id in self._grads):
            arrival.fate = "dropped"
            if not command.requeue and arrival.grad.round is None:
                self.given_up.append((t, arrival.grad.samples))

    def take(self, line: Line) -> None:
        """Process one line of the record."""
        match line.event:
            case Arrived() as event:
                self.arrived(line.t, event)
            case Failed(worker=worker):
                self.forget(worker)
            case Lost(worker=worker):
                self.forget(worker)
                if self.going_back:
                    self.halt()
            case ServerLost(holding=True):
                self.halt()
            case Restored(version=version):
                self.restored(version)
            case None:
                self._noted(line)
        if not self.halted:
            self._carry_out(line)

    def _noted(self, line: Line) -> None:
        match line.note:
            case Parked(worker=worker):
                self._held.add((worker, line.t))
            case RollingBack():
                self.going_back = True
            case Jumped() as note:
                self.jumped(note)

    def _carry_out(self, line: Line) -> None:
        for command in line.commands:
            match command:
                case Compute(worker=worker):
                    self._issued[worker] = line.t
                case Apply() if self.version >= line.version:
                    return  # the job had ended
                case Apply():
                    self.applied(line.t, command)
                case Drop():
                    self.dropped(line.t, command)
                case _ if halts(command, going_back=self.going_back):
                    self.halt()
                    return


def build_history(lines: list[Line]) -> History:
    """Build the history of a whole record."""
    history = History()
    for line in lines:
        history.take(line)
    return history
