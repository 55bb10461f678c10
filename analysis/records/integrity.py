"""Checks a record against the laws of the protocol.

Every check has a broken record in ``tests/unit/analysis/test_analysis_integrity.py`` that it must catch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from analysis.records.halting import halts
from analysis.records.load import Run, find_gap
from analysis.records.nodes import Node, parse_node
from analysis.records.rows import problems_of
from analysis.records.schema import (
    ROWS,
    Apply,
    Arrived,
    Compute,
    Drop,
    Failed,
    Joined,
    Jumped,
    LayoutChanged,
    Line,
    Lost,
    Measured,
    Restored,
    RollingBack,
    Score,
    Scored,
    ServerLost,
    Started,
)

LIMIT = 20
"""Number of problems reported in full."""


@dataclass(frozen=True)
class Integrity:
    """``problems`` found, and what could not be checked on this record (``unchecked``), each with the reason."""

    problems: tuple[str, ...]
    unchecked: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


def integrity(run: Run) -> Integrity:
    """Check one record: order of the lines, life cycle of every Compute and gradient, conservation of samples."""
    problems, unchecked = list(_order(run.lines)), []
    if run.by_rows:
        problems += problems_of(run.path / ROWS, run.tables.iterations, run.finished, _jumps(run))
        unchecked = ["life of every Compute: the record has rows instead of events"]
    else:
        conserved, unchecked = _conservation(run)
        problems += [*_lives(run.lines), *_members(run.lines), *conserved]
    more = len(problems) - LIMIT
    shown = problems[:LIMIT] + ([f"and {more} more"] if more > 0 else [])
    return Integrity(tuple(shown), tuple(unchecked))


def _order(lines: list[Line]) -> Iterator[str]:
    """Sequence numbers have no gaps, and time never decreases."""
    gap = find_gap(lines)
    if gap is not None:
        yield f"line {gap + 1}: seq {lines[gap].seq} does not follow the line before"
    latest = 0.0
    for line in lines:
        if line.t < latest:
            yield f"seq {line.seq}: t = {line.t} after {latest}"
        latest = max(latest, line.t)


def _lives(lines: list[Line]) -> Iterator[str]:
    """Every Compute ends once; every gradient is applied or dropped at most once; versions count the updates."""
    lives = _Lives()
    for line in lines:
        lives.going_back |= isinstance(line.note, RollingBack)
        lives.version += line.note.updates if isinstance(line.note, Jumped) else 0
        if line.event is not None:
            yield from (f"seq {line.seq}: {problem}" for problem in lives.take(line))


def _members(lines: list[Line]) -> Iterator[str]:
    """Layouts are numbered from 0, and nobody is named who is not in them. Older records have none.

    Who has left may still be named, as when its last gradient is scored, but neither joins nor computes.
    """
    version, now, ever = -1, set[Node](), set[Node]()
    for line in lines:
        if isinstance(line.note, LayoutChanged):
            if line.note.version != version + 1:
                yield f"seq {line.seq}: layout {line.note.version} follows layout {version}"
            version, now = line.note.version, {parse_node(name) for name in line.note.nodes}
            ever |= now
        elif line.event is not None and version >= 0:
            acting = _acting(line)
            for node in sorted(acting - now | _named(line.event) - ever):
                yield f"seq {line.seq}: {node} is not in layout {version}"


def _acting(line: Line) -> set[Node]:
    """Workers that join, or are to compute."""
    found = {command.worker for command in line.commands if isinstance(command, Compute)}
    if isinstance(line.event, Joined):
        found.add(line.event.worker)
    return {Node("worker", (worker,)) for worker in found}


def _named(event: object) -> set[Node]:
    grad = getattr(event, "grad", None)
    worker = getattr(event, "worker", None) if grad is None else grad.worker
    server = getattr(event, "server", None)
    found = (("worker", worker), ("server", server))
    return {Node(role, (number,)) for role, number in found if number is not None}


@dataclass
class _Lives:
    version: int = 0
    halted: bool = False
    going_back: bool = False
    busy: set[int] = field(default_factory=set)
    here: dict[int, int | None] = field(default_factory=dict)
    """Incarnation of every present worker; None for one whose return during a server's absence was not announced."""
    unused: set[int] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    """Gradients whose score is pending."""
    measured: set[int] = field(default_factory=set)
    """Versions of updates whose norm is still to come."""

    def take(self, line: Line) -> Iterator[str]:
        """Process one event and the commands that it caused."""
        match line.event:
            case Scored():
                yield from self._scored(line.event)
            case Measured(version=version):
                yield from self._was_measured(version)
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
                yield from self._ended(grad.worker, "Arrived")
                if grad.id in self.seen:
                    yield f"gradient {grad.id} arrived twice"
                if self.here.get(grad.worker, -1) not in (None, grad.incarnation):
                    yield f"gradient {grad.id} of incarnation {grad.incarnation} of worker {grad.worker}, which is gone"
                self.here[grad.worker] = grad.incarnation
                self.seen.add(grad.id)
                self.unused |= {grad.id} if grad.samples else set()
            case Failed(worker=worker):
                yield from self._ended(worker, "Failed")
            case Lost(worker=worker):
                self.busy.discard(worker)
                self.here.pop(worker, None)
            case Joined(worker=worker, incarnation=incarnation):
                self.here[worker] = incarnation
            case ServerLost(holding=True):
                self._halt()
            case Restored(version=version, workers=workers):
                self.halted, self.going_back, self.version = False, False, version
                self.here = dict.fromkeys(workers)
                self._void()

    def _scored(self, scored: Scored) -> Iterator[str]:
        if scored.grad.id not in self.asked:
            yield f"Scored of gradient {scored.grad.id}, which was not asked for"
        if scored.ref_version > self.version:
            yield f"Scored of gradient {scored.grad.id} against version {scored.ref_version}, which does not exist yet"
        self.asked.discard(scored.grad.id)

    def _was_measured(self, version: int) -> Iterator[str]:
        if version not in self.measured:
            yield f"Measured of version {version}, which was not asked for"
        self.measured.discard(version)

    def _ended(self, worker: int, how: str) -> Iterator[str]:
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
            case Apply(grads=grads) | Drop(grads=grads):
                self.version += isinstance(command, Apply)
                self.measured |= {self.version} if isinstance(command, Apply) and command.measure else set()
                what = type(command).__name__
                for grad in grads:
                    if grad not in self.unused:
                        yield f"{what} of gradient {grad}, which was not available (used, void, or never arrived)"
                    self.unused.discard(grad)
                    self.asked.discard(grad)


def _conservation(run: Run) -> tuple[list[str], list[str]]:
    """(problems, unchecked): every sample of every epoch is used once, applied or given up by a lossy Drop."""
    if run.history.given_up and any(isinstance(line.event, Restored) for line in run.lines):
        return [], ["samples: a rollback may have brought back some that were given up on request"]
    uses = [(update.t, update.samples) for update in run.history.updates if not update.void]
    uses = sorted([*uses, *run.history.given_up], key=lambda use: use[0])
    if run.job.get("epoch_overlap"):
        return list(_total(run)), ["samples of each epoch: epochs overlap"]
    if _jumps(run):
        return list(_total(run)), ["samples of each epoch: iterations were skipped"]
    return [*_per_epoch(uses, run.job["num_samples"]), *_total(run)], []


def _per_epoch(uses: list[tuple[float, int]], num_samples: int) -> Iterator[str]:
    """No update mixes two epochs: the running sum of the samples used meets every multiple of the data set's size."""
    used = 0
    for t, samples in uses:
        epoch, used = used // num_samples, used + samples
        if used // num_samples != epoch and used % num_samples:
            end = (epoch + 1) * num_samples
            yield f"t = {t:g}: {used} samples used, which passes the end of epoch {epoch} at {end}"


def _total(run: Run) -> Iterator[str]:
    """The number of applied samples matches the runtime's, and is whole epochs if the job completed them all."""
    end, epochs = run.finished, run.job.get("epochs")
    if end is None:
        return
    applied = sum(update.samples for update in run.history.updates if not update.void)
    applied += sum(jump.samples for jump in _jumps(run))
    # the event that did not fit on the disk was carried out, but is not in the record
    unwritten = run.status == "disk_full" and end.samples_applied is not None and end.samples_applied > applied
    if end.samples_applied is not None and end.samples_applied != applied and not unwritten:
        yield f"{applied} samples applied, but the last line says {end.samples_applied}"
    given_up = sum(samples for _, samples in run.history.given_up)
    if epochs is not None and end.epochs_done == epochs and applied + given_up != epochs * run.job["num_samples"]:
        yield f"{applied} samples applied and {given_up} given up in {epochs} epochs of {run.job['num_samples']}"
    if epochs is not None and end.epochs_done == epochs and end.shards_done != end.shards_total:
        yield f"{end.shards_done} of {end.shards_total} shards done at the end"


def _jumps(run: Run) -> list[Jumped]:
    return [line.note for line in run.lines if isinstance(line.note, Jumped)]
