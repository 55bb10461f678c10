"""Checks a record against the laws of the protocol.

Every check has a broken record in ``tests/unit/analysis/test_analysis_integrity.py`` that it must catch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from analysis.records.halting import halts
from analysis.records.log import Log
from analysis.records.nodes import Node, parse_node
from analysis.records.rows import problems_of
from analysis.records.run import LOG, Integrity, Run
from analysis.records.schema import ROWS, Jumped, LayoutChanged, Line, Other, Preempted, Rollback
from strategies.protocol import (
    Apply,
    Arrived,
    Compute,
    Drop,
    Failed,
    Grad,
    Joined,
    Lost,
    Measured,
    Ready,
    Restored,
    Score,
    Scored,
    Send,
    ServerLost,
    Started,
)

LIMIT = 20
"""Number of problems reported in full."""
REPEATED = "applied, of the same shard"
"""Why samples of a lost worker's shard return to the queue although they count already (``failover=whole_shards``)."""


def integrity(run: Run) -> Integrity:
    """Check one record: order of the lines, life cycle of every Compute and gradient, conservation of samples.

    That reads the whole log, unless its integrity is stored with what else is known of it.
    """
    if run.contents.integrity is not None:
        return run.contents.integrity
    if run.by_rows:
        rows = problems_of(run.path / ROWS, run.tables.iterations, run.finished, _jumps(run))
        problems = [*_line_problems(run), *rows]
        unchecked = ["life of every Compute: the record has rows instead of events"]
    else:
        conserved, unchecked = _conservation(run)
        problems = [*_line_problems(run), *conserved]
    more = len(problems) - LIMIT
    shown = problems[:LIMIT] + ([f"and {more} more"] if more > 0 else [])
    return Integrity(tuple(shown), tuple(unchecked))


def _line_problems(run: Run) -> Sequence[str]:
    if run.contents.problems is not None:
        return run.contents.problems
    laws = Laws(run.by_rows)
    for lines, _ in Log(run.path / LOG).blocks():
        laws.take(lines)
    return laws.problems


class _Check(Protocol):
    def take(self, line: Line) -> Iterator[str]:
        """Problems of the next line."""


class Laws:
    """Checks what single lines say, in their order. Without events (``by_rows``), only their order can be checked."""

    def __init__(self, by_rows: bool) -> None:
        checks: tuple[_Check, ...] = (_Order(),) if by_rows else (_Order(), _Lives(), _Members())
        self._found: list[tuple[_Check, list[str]]] = [(check, []) for check in checks]

    def take(self, lines: Sequence[Line]) -> None:
        """Check the next lines."""
        for check, problems in self._found:
            for line in lines:
                problems += check.take(line)

    @property
    def problems(self) -> list[str]:
        """All problems so far, problems of the order first."""
        return [problem for _, problems in self._found for problem in problems]


@dataclass
class _Order:
    """Time never decreases (the reader of the log has checked that sequence numbers have no gaps)."""

    latest: float = 0.0

    def take(self, line: Line) -> Iterator[str]:
        """Yield the laws that the next line breaks."""
        if line.t < self.latest:
            yield f"seq {line.seq}: t = {line.t} after {self.latest}"
        self.latest = max(self.latest, line.t)


@dataclass
class _Members:
    """Layouts are numbered from 0, and only their members are named. Older records have none.

    A worker that has left may still be named, as when its last gradient is scored, but neither joins nor computes.
    """

    version: int = -1
    now: set[Node] = field(default_factory=set)
    ever: set[Node] = field(default_factory=set)

    def take(self, line: Line) -> Iterator[str]:
        """Yield the laws that the next line breaks."""
        if isinstance(line.note, LayoutChanged):
            if line.note.version != self.version + 1:
                yield f"seq {line.seq}: layout {line.note.version} follows layout {self.version}"
            self.version, self.now = line.note.version, {parse_node(name) for name in line.note.nodes}
            self.ever |= self.now
        elif line.event is not None and self.version >= 0:
            for node in sorted(_acting(line) - self.now | _name(line.event) - self.ever):
                yield f"seq {line.seq}: {node} is not in layout {self.version}"


def _acting(line: Line) -> set[Node]:
    """Workers that join, or are to compute."""
    found = {command.worker for command in line.commands if isinstance(command, Compute)}
    if isinstance(line.event, Joined):
        found.add(line.event.worker)
    return {Node("worker", (worker,)) for worker in found}


def _name(event: object) -> set[Node]:
    grad = getattr(event, "grad", None)
    worker = grad.worker if isinstance(grad, Grad) else getattr(event, "worker", None)
    server = getattr(event, "server", None)
    found = (("worker", worker), ("server", server))
    return {Node(role, (number,)) for role, number in found if number is not None}


@dataclass
class _Lives:
    """Every Compute ends once; every gradient is applied or dropped at most once; versions count the updates."""

    version: int = 0
    halted: bool = False
    going_back: bool = False
    busy: set[int] = field(default_factory=set)
    here: dict[int, int | None] = field(default_factory=dict)
    """Incarnation of every present worker; None for one whose return during a server's absence was not announced."""
    ready: dict[int, int] = field(default_factory=dict)
    """Workers that hold a gradient that was not sent yet."""
    sent: dict[int, int] = field(default_factory=dict)
    """Workers of the gradients that were sent."""
    unused: set[int] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    """Gradients whose score is pending."""
    measured: set[int] = field(default_factory=set)
    """Versions of updates whose norm is still to come."""

    def take(self, line: Line) -> Iterator[str]:
        """Yield the laws that the next line breaks."""
        self.going_back |= isinstance(line.note, Rollback)
        if isinstance(line.note, Preempted):
            self._halt()
        self.version += line.note.updates if isinstance(line.note, Jumped) else 0
        if line.event is not None:
            yield from (f"seq {line.seq}: {problem}" for problem in self._take(line))

    def _take(self, line: Line) -> Iterator[str]:
        """Process one event and the commands that it caused."""
        match line.event:
            case Scored():
                yield from self._on_scored(line.event)
            case Measured(version=version):
                yield from self._was_measured(version)
            case Ready(grad=grad):
                yield from self._is_ready(grad)
            case _:
                yield from self._event(line)
        if self.going_back and isinstance(line.event, Lost):
            self._halt()
        if not self.halted:
            for command in line.commands:
                if isinstance(command, Apply) and self.version >= line.version:
                    return  # the job had ended; later commands were not carried out
                if self._counts():
                    yield from self._command(command)
            if self.version != line.version:
                yield f"version {line.version} after an event and commands that make it {self.version}"
                self.version = line.version

    def _event(self, line: Line) -> Iterator[str]:
        match line.event:
            case Started(workers=workers):
                self.here = dict.fromkeys(workers)  # first incarnations may have died during start-up
            case Arrived(grad=grad):
                yield from self._on_arrived(grad)
            case Failed(worker=worker):
                yield from self._on_ended(worker, "Failed")
            case Lost(worker=worker):
                self.busy.discard(worker)
                self.ready = {grad: holder for grad, holder in self.ready.items() if holder != worker}
                self.here.pop(worker, None)
            case Joined(worker=worker, incarnation=incarnation):
                self.here[worker] = incarnation
            case ServerLost(holding=True):
                self._halt()
            case Restored(version=version, workers=workers):
                self.halted, self.going_back, self.version = False, False, version
                self.here = dict.fromkeys(workers)
                self._void()

    def _on_arrived(self, grad: Grad) -> Iterator[str]:
        if grad.id in self.ready:
            yield f"gradient {grad.id} arrived, but was not sent"
        yield from self._on_ended(grad.worker, "Arrived")
        self.sent.pop(grad.id, None)
        for member in grad.members:
            if (worker := self.sent.pop(member, None)) is None:
                yield f"gradient {grad.id} has gradient {member} in it, which was not sent"
            elif worker != grad.worker:
                yield from self._on_ended(worker, "Arrived")
        if grad.id in self.seen:
            yield f"gradient {grad.id} arrived twice"
        if self.here.get(grad.worker, -1) not in (None, grad.incarnation):
            yield f"gradient {grad.id} of incarnation {grad.incarnation} of worker {grad.worker}, which is gone"
        self.here[grad.worker] = grad.incarnation
        self.seen.add(grad.id)
        self.unused |= {grad.id} if grad.samples else set()

    def _is_ready(self, grad: Grad) -> Iterator[str]:
        if grad.worker not in self.busy:
            yield f"Ready of worker {grad.worker}, which was not computing"
        self.ready[grad.id] = grad.worker

    def _on_sent(self, grads: Sequence[int]) -> Iterator[str]:
        for grad in grads:
            holder = self.ready.pop(grad, None)
            if holder is None:
                yield f"Send of gradient {grad}, which nobody held"
            else:
                self.sent[grad] = holder

    def _on_scored(self, scored: Scored) -> Iterator[str]:
        if scored.grad.id not in self.asked:
            yield f"Scored of gradient {scored.grad.id}, which was not asked for"
        if scored.ref_version > self.version:
            yield f"Scored of gradient {scored.grad.id} against version {scored.ref_version}, which does not exist yet"
        self.asked.discard(scored.grad.id)

    def _was_measured(self, version: int) -> Iterator[str]:
        if version not in self.measured:
            yield f"Measured of version {version}, which was not asked for"
        self.measured.discard(version)

    def _on_ended(self, worker: int, how: str) -> Iterator[str]:
        if worker not in self.busy:
            yield f"{how} of worker {worker}, which was not computing"
        self.busy.discard(worker)

    def _counts(self) -> bool:
        return not self.halted

    def _halt(self) -> None:
        self.halted = True
        self._void()

    def _void(self) -> None:
        self.busy.clear()
        self.ready.clear()
        self.sent.clear()
        self.unused.clear()
        self.asked.clear()
        self.measured.clear()

    def _command(self, command: object) -> Iterator[str]:
        match command:
            case Compute(worker=worker):
                if worker in self.busy:
                    yield f"Compute for worker {worker} while it was computing"
                self.busy.add(worker)
            case _ if halts(command, going_back=self.going_back):
                self._halt()
            case Score(grad=grad):
                if grad not in self.unused - self.asked:
                    yield f"Score of gradient {grad}, which was not available or is being scored"
                self.asked.add(grad)
            case Send(grads=grads):
                yield from self._on_sent(grads)
            case Apply(grads=grads) | Drop(grads=grads):
                if isinstance(command, Drop):
                    self._forget(grads)
                self.version += isinstance(command, Apply)
                self.measured |= {self.version} if isinstance(command, Apply) and command.measure else set()
                yield from self._on_used(type(command).__name__, grads)

    def _forget(self, grads: Sequence[int]) -> None:
        """Workers that hold some of these are idle."""
        held = [grad for grad in grads if grad in self.ready]
        self.busy -= {self.ready.pop(grad) for grad in held}
        self.unused |= set(held)

    def _on_used(self, what: str, grads: Sequence[int]) -> Iterator[str]:
        for grad in grads:
            if grad not in self.unused:
                yield f"{what} of gradient {grad}, which was not available (used, void, or never arrived)"
            self.unused.discard(grad)
            self.asked.discard(grad)


def _conservation(run: Run) -> tuple[list[str], list[str]]:
    """(problems, unchecked): every sample of every epoch is used once, applied or given up by a lossy Drop."""
    given_up = run.contents.given_up
    if given_up and _rolls_back(run):
        return [], ["samples: a rollback may have brought back some that were given up on request"]
    updates = run.tables.updates[~run.tables.updates["void"]]
    uses = sorted([*zip(updates["t"], updates["samples"], strict=True), *given_up], key=lambda use: use[0])
    total = list(_total(run, int(updates["samples"].sum())))
    if run.job.get("epoch_overlap"):
        return total, ["samples of each epoch: epochs overlap"]
    if run.job.get("failover") == "whole_shards":
        return total, ["samples of each epoch: shards of lost workers are repeated"]
    if _jumps(run):
        return total, ["samples of each epoch: iterations were skipped"]
    return [*_per_epoch(uses, run.job["num_samples"]), *total], []


def _per_epoch(uses: list[tuple[float, int]], num_samples: int) -> Iterator[str]:
    """No update mixes two epochs: the running sum of the samples used meets every multiple of the data set's size."""
    used = 0
    for t, samples in uses:
        epoch, used = used // num_samples, used + samples
        if used // num_samples != epoch and used % num_samples:
            end = (epoch + 1) * num_samples
            yield f"t = {t:g}: {used} samples used, which passes the end of epoch {epoch} at {end}"


def _total(run: Run, applied: int) -> Iterator[str]:
    """The number of applied samples matches the runtime's, and is whole epochs if the job completed them all."""
    end, epochs = run.finished, run.job.get("epochs")
    if end is None:
        return
    # the event that did not fit on the disk was carried out, but is not in the record
    unwritten = run.status == "disk_full" and end.samples_applied is not None and end.samples_applied > applied
    if end.samples_applied is not None and end.samples_applied != applied and not unwritten:
        yield f"{applied} samples applied, but the last line says {end.samples_applied}"
    given_up = sum(samples for _, samples in run.contents.given_up)
    least, most = _repeated(run)
    num_samples = run.job["num_samples"]
    more = applied + given_up - (epochs or 0) * num_samples
    if epochs is not None and end.epochs_done == epochs and not least <= more <= most:
        again = f", and {most} repeated" if most else ""
        yield f"{applied} samples applied and {given_up} given up in {epochs} epochs of {num_samples}{again}"
    if epochs is not None and end.epochs_done == epochs and end.shards_done != end.shards_total:
        yield f"{end.shards_done} of {end.shards_total} shards done at the end"


def _repeated(run: Run) -> tuple[int, int]:
    """The least and the largest number of samples that were applied more than once: a rollback undoes repeats."""
    if run.job.get("failover") != "whole_shards":
        return 0, 0
    notes = [line.note.fields for line in run.notable_lines if isinstance(line.note, Other)]
    repeated = sum(int(fields["samples"]) for fields in notes if fields.get("reason") == REPEATED)
    return 0 if _rolls_back(run) else repeated, repeated


def _rolls_back(run: Run) -> bool:
    return bool(run.tables.restarts["what"].isin(["Restored", "Repartitioned", "Resumed"]).any())


def _jumps(run: Run) -> list[Jumped]:
    return [line.note for line in run.notable_lines if isinstance(line.note, Jumped)]
