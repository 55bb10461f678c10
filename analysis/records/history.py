"""The fate of every gradient, by columns: one pass over the lines of a record.

A command counts only if it was carried out. Three things void it: the loss of a server, or of a worker that the others
cannot continue without, and a preemption (both until ``Restored``); and the job's end before it (then the line's
``version`` is lower than its ``Apply`` commands would make it).
"""

from __future__ import annotations

from array import array
from math import nan

import numpy as np

from analysis.records.halting import halts
from analysis.records.schema import GaveUp, Jumped, Line, Preempted, Rollback, Starved
from strategies.protocol import Apply, Arrived, Compute, Drop, Failed, Lost, Ready, Restored, ServerLost

FATES = ("open", "empty", "applied", "dropped", "void")
"""Unused at the end, without samples, used, discarded, rolled back."""
OPEN, EMPTY, APPLIED, DROPPED, VOID = range(len(FATES))
NEVER = 0
"""``applied_version`` of a gradient that was never applied; its ``applied_t`` is NaN."""


class Arrivals:
    """A row per pushed gradient, in order.

    ``issued_s`` is when its Compute was carried out; ``held``: that waited for data; ``kept_s`` for how long the worker
    held the gradient before it was sent; ``fate`` is a place in ``FATES``.
    ``applied_version`` and ``applied_t`` stay filled in if a rollback voided it.
    """

    def __init__(self) -> None:
        self.issued_s, self.applied_t = array("d"), array("d")
        self.applied_version = array("q")
        self.kept_s = array("d")
        self.fate, self.held = bytearray(), bytearray()


class Updates:
    """A row per update that was carried out; ``void`` if a rollback undid it."""

    def __init__(self) -> None:
        self.t, self.lr_scale = array("d"), array("d")
        self.version, self.num_grads, self.samples = array("q"), array("q"), array("q")
        self.void = bytearray()


class History:
    """The arrivals and updates of a run; give it every line in order."""

    def __init__(self) -> None:
        self.arrivals, self.updates = Arrivals(), Updates()
        self.version = 0
        self.given_up: list[tuple[float, int]] = []
        """(t, samples) of gradients that were dropped permanently."""
        self.discarded = 0
        """Gradients that were dropped while their workers held them: they never arrived."""
        self.later: list[tuple[int, int, int]] = []
        """(row, updates, iterations) of gradients that waited while so much was skipped."""
        self._halted = self._going_back = False
        self._held: set[tuple[int, float]] = set()
        self._issued: dict[int, float] = {}
        self._ready: dict[int, tuple[float, Ready]] = {}
        """When gradients were ready that are held, or on their way since then."""
        self._open: dict[int, tuple[int, Arrived]] = {}
        """Row and event of every gradient that may still be used."""

    def take(self, line: Line) -> None:
        """Process one line of the record."""
        if isinstance(line.event, Arrived):  # nearly all
            self._on_arrived(line.t, line.event)
        else:
            self._other(line)
        if not self._halted:
            self._carry_out(line)

    def _other(self, line: Line) -> None:
        match line.event:
            case Ready():
                self._ready[line.event.grad.id] = (line.t, line.event)
            case Failed(worker=worker):
                self._issued.pop(worker, None)
            case Lost(worker=worker):
                self._issued.pop(worker, None)
                if self._going_back:
                    self._halt()
            case ServerLost(holding=True):
                self._halt()
            case Restored(version=version):
                self._on_restored(version)
            case None:
                self._on_noted(line.t, line.note)

    def _on_noted(self, t: float, note: object) -> None:
        match note:
            case Starved(worker=worker):
                self._held.add((worker, t))
            case Rollback():
                self._going_back = True
            case Preempted():
                self._halt()
            case GaveUp(samples=samples):
                self.given_up.append((t, samples))
            case Jumped():
                self._on_jumped(note)

    def _on_arrived(self, t: float, event: Arrived) -> None:
        """Add an arrived gradient; an empty one has nothing to apply."""
        grad, timings, rows = event.grad, event.timings, self.arrivals
        # a Compute that waited for data began when data came, which only the worker's durations show
        ready_s, _ = self._ready.pop(grad.id, (t - timings.send_s, None))
        begun = ready_s - timings.pull_s - timings.data_s - timings.compute_s
        issued = self._issued.pop(grad.worker, begun)
        held = (grad.worker, issued) in self._held
        if grad.samples:
            self._open[grad.id] = (len(rows.fate), event)
        rows.issued_s.append(begun if held else issued)
        rows.held.append(held)
        rows.kept_s.append(max(0.0, t - timings.send_s - ready_s))
        rows.fate.append(OPEN if grad.samples else EMPTY)
        rows.applied_version.append(NEVER)
        rows.applied_t.append(nan)

    def _halt(self) -> None:
        """Void all open gradients: they can no longer be applied."""
        self._halted = True
        self._issued.clear()
        self._ready.clear()
        for row, _ in self._open.values():
            self.arrivals.fate[row] = VOID
        self._open.clear()

    def _on_restored(self, version: int) -> None:
        """Undo the updates after ``version``."""
        self._halt()
        self._halted, self._going_back, self.version = False, False, version
        for row in reversed(range(len(self.updates.t))):
            if not self.updates.void[row] and self.updates.version[row] <= version:
                break
            self.updates.void[row] = True
        fate = np.frombuffer(self.arrivals.fate, np.uint8)  # the same memory, so it may not outlive this method
        fate[(fate == APPLIED) & (np.frombuffer(self.arrivals.applied_version, np.int64) > version)] = VOID

    def _on_jumped(self, note: Jumped) -> None:
        """Count the skipped updates; gradients that wait are so many iterations and updates later."""
        self.version += note.updates
        for row, event in self._open.values():
            self.later.append((row, note.updates, note.iterations.get(str(event.grad.worker), 0)))

    def _carry_out(self, line: Line) -> None:
        for command in line.commands:
            if isinstance(command, Compute):  # not `match`, which takes twice as long
                self._issued[command.worker] = line.t
            elif isinstance(command, Apply):
                if self.version >= line.version:
                    return  # the job had ended
                self._on_applied(line.t, command)
            elif isinstance(command, Drop):
                self._on_dropped(line.t, command)
            elif halts(command, going_back=self._going_back):
                self._halt()
                return

    def _on_applied(self, t: float, command: Apply) -> None:
        """Add one update and mark its gradients as applied."""
        self.version += 1
        rows, samples = self.arrivals, 0
        for row, event in self._take(command.grads):
            samples = event.grad.round_samples or samples + event.grad.samples
            rows.fate[row], rows.applied_version[row], rows.applied_t[row] = APPLIED, self.version, t
        updates = self.updates
        updates.t.append(t)
        updates.version.append(self.version)
        updates.num_grads.append(len(command.grads))
        updates.samples.append(samples)
        updates.lr_scale.append(command.lr_scale)
        updates.void.append(False)

    def _on_dropped(self, t: float, command: Drop) -> None:
        """Mark gradients as not used."""
        for row, event in self._take(command.grads):
            self.arrivals.fate[row] = DROPPED
            if not command.requeue and event.grad.round is None:
                self.given_up.append((t, event.grad.samples))
        held = [self._ready.pop(grad) for grad in command.grads if grad in self._ready]
        self.discarded += len(held)
        for _, ready in held:
            if not command.requeue and ready.grad.round is None:
                self.given_up.append((t, ready.grad.samples))

    def _take(self, grads: tuple[int, ...]) -> list[tuple[int, Arrived]]:
        """Row and event of those gradients that are open; they no longer are."""
        return [found for grad in grads if (found := self._open.pop(grad, None)) is not None]
