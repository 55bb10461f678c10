"""The story of one subject: entries in the order of time, each with the cause that the record has for it.

A line of the log holds an event and the commands that answer it. So the event is the cause of the commands, and the
fields of the strategy's state that the line changes are its reason. Other causes are on an earlier line: of a timer
where it was set, of a node's loss or start the order to it, of an order that waited the note about it. A worker waits
from its gradient to its next ``Compute``; the event of the line with that order ended the wait. An update counts as
applied until a ``Restored`` of an earlier version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from analysis.records.nodes import Node, worker_name
from analysis.reports.story.causes import Causes
from analysis.reports.story.iterations import APPLIED, Iterations
from analysis.reports.story.lines import Fields, RawLine
from analysis.reports.story.subjects import concerns
from analysis.reports.story.words import (
    change_of_state,
    command_in_words,
    event_in_words,
    note_in_words,
    reason_of,
    window_in_words,
)

OF_JOB = ("Rollback", "Preempted", "Resumed", "Repartitioning", "Finished", "NodeLost", "NodeJoined")
"""Notes about the whole job; every task's story has them, too."""
EVENTS_OF_JOB = ("Started", "Lost", "Joined", "ServerLost", "ServerJoined", "Restored", "Denied", "Reserved")
OF_NODE = ("Restarting", "Requested", "Evicting", "Deferred", "Moved", "Stuck")
"""Notes about one node that the whole job's story has."""
LARGE = ("nodes", "shares", "places", "links", "memory", "parameters_sha256")
"""Fields that would fill a page."""


class Entry(NamedTuple):
    """Something that happened from ``t`` to ``until`` seconds of the job, and why (empty: the record does not say)."""

    t: float
    until: float
    seq: int
    what: str
    why: str = ""


class Story(NamedTuple):
    """The story; ``known`` is False if the record never names its subject."""

    entries: list[Entry]
    known: bool = True


def tell(
    lines: Iterable[RawLine],
    windows: Sequence[Fields],
    subject: Node | None,
    from_s: float = 0.0,
    to_s: float = inf,
) -> Story:
    """The story of a subject (None: the whole job) from the lines of a log.

    Args:
        lines: all lines in order.
        windows: the plan's disturbances in its order.
        subject: whose story.
        from_s: entries that end before this time are left out; seconds of the job.
        to_s: entries that begin after this time are left out.
    """
    teller = _Teller(windows, subject)
    entries = [entry for line in lines for entry in teller.take(line)] + list(teller.iterations_told())
    entries.sort(key=lambda entry: (entry.t, entry.seq))
    return Story([one for one in entries if one.until >= from_s and one.t <= to_s], subject is None or teller.known)


@dataclass
class _Given:
    """A gradient whose fate is still open."""

    worker: int
    t: float
    seq: int
    version: int
    samples: int


class _Teller:
    """Reads lines one by one and remembers what later entries need."""

    def __init__(self, windows: Sequence[Fields], subject: Node | None) -> None:
        self.windows, self.subject = windows, subject
        self.known = False
        self.state: Fields | None = None
        self.open: set[int] = set()
        self.gradients: dict[int, _Given] = {}
        self.iterations = Iterations()
        self.told: list[Iterations] = []
        """Iterations that other entries have followed; a rollback may change their fates."""
        self.applied: dict[int, list[Iterations]] = {}
        """Updates of the subject by the version that they made, with the iterations that count their gradients."""
        self.reason_back = ""
        """Why all tasks last had to return to one version."""
        self.causes = Causes()
        self.idle_since: float | None = None
        self.nodes = frozenset[str]()
        self.samples: int | None = None
        """Samples of the subject's last order, if it is a worker."""

    @property
    def worker(self) -> int | None:
        """The subject's number, if it is a worker."""
        return self.subject.number if self.subject and self.subject.role == "worker" else None

    # ---- lines ---------------------------------------------------------------------------------------------------

    def take(self, line: RawLine) -> Iterator[Entry]:
        """The entries that a line completes."""
        found = list(self._of_note(line)) if line.note is not None else list(self._of_event(line))
        if found and self.iterations.times:
            self.told.append(self.iterations)
            self.iterations = Iterations()
        yield from found
        if line.state is not None:
            self.state = line.state

    def iterations_told(self) -> Iterator[Entry]:
        """The worker's iterations, when the fates of all of them are known."""
        for one in (*self.told, self.iterations):
            if one.times:
                yield Entry(one.times[0] - one.seconds[0], one.times[-1], one.seqs[0], one.in_words())

    def _of_note(self, line: RawLine) -> Iterator[Entry]:
        note = line.note or {}
        if note.get("type") == "Rollback":
            self.reason_back = str(note.get("reason", ""))
        if note.get("type") == "Deferred":
            self.causes.note_deferred(line)
        if note.get("type") == "Injecting":
            yield from self._windows(line, set(note.get("active", ())))
        elif note.get("type") == "LayoutChanged":
            yield from self._layout(line, frozenset(map(str, note.get("nodes", ()))))
        elif (note.get("type") in OF_JOB and self._tells_job()) or (self.subject and self._is_of(note)):
            if note.get("type") != "Updated":
                yield Entry(line.t, line.t, line.seq, note_in_words(_brief(note)), self.causes.of_note(note))
        elif self.subject is None and note.get("type") in OF_NODE:
            where = note.get("node") or note.get("task") or ""
            what = f"{where} {note_in_words(note)}".strip()
            yield Entry(line.t, line.t, line.seq, what, self.causes.of_note(note))

    def _of_event(self, line: RawLine) -> Iterator[Entry]:
        event = line.event or {}
        kind = event.get("type")
        if kind == "Arrived":
            yield from self._on_arrived(line, event)
        elif self.subject and self.subject.role == "gradient":
            if (event.get("grad") or {}).get("id") == self.subject.number:
                yield Entry(line.t, line.t, line.seq, event_in_words(event))
        elif kind in EVENTS_OF_JOB and (self._is_of(event) or (self._tells_job() and kind in ("Started", "Restored"))):
            yield Entry(line.t, line.t, line.seq, event_in_words(_brief(event)), self.causes.of_event(event))
        if kind == "ServerLost" and event.get("holding", True):
            self.reason_back = event_in_words(event)
        if kind == "Restored":
            yield from self._on_rolled_back(line, event)
            self.idle_since = line.t
        yield from self._of_commands(line)

    def _windows(self, line: RawLine, active: set[int]) -> Iterator[Entry]:
        for index in sorted(active ^ self.open):
            window = self.windows[index] if isinstance(index, int) and 0 <= index < len(self.windows) else {}
            target = str(window.get("target", ""))
            if self._is_of({"target": target}):
                text = window_in_words(window, index in active)
                yield Entry(line.t, line.t, line.seq, text if target == str(self.subject) else f"{target}: {text}")
        self.open = active

    def _layout(self, line: RawLine, nodes: frozenset[str]) -> Iterator[Entry]:
        """The nodes of the job are others; the first layout is no change."""
        self.known |= str(self.subject) in nodes
        come, gone = sorted(nodes - self.nodes), sorted(self.nodes - nodes)
        if self.nodes and (come or gone) and self._tells_job():
            said = [f"{' and '.join(come)} added"] if come else []
            said += [f"{' and '.join(gone)} removed"] if gone else []
            yield Entry(line.t, line.t, line.seq, f"the job's nodes change: {', '.join(said)}")
        self.nodes = nodes

    # ---- gradients -----------------------------------------------------------------------------------------------

    def _on_arrived(self, line: RawLine, event: Fields) -> Iterator[Entry]:
        grad: Fields = event["grad"]
        self.gradients[grad["id"]] = _Given(grad["worker"], line.t, line.seq, grad["version"], grad.get("samples", 0))
        if grad["worker"] == self.worker:
            self.known = True
            self.iterations.count_gradient(line.seq, line.t, event)
            self.idle_since = line.t
        if self.subject == Node("gradient", (grad["id"],)):
            self.known = True
            what = (
                f"arrived: {grad.get('samples', 0)} samples of worker:{grad['worker']}, iteration {grad['iteration']}"
            )
            yield Entry(line.t, line.t, line.seq, f"{what}, computed on version {grad['version']}")

    def _on_rolled_back(self, line: RawLine, event: Fields) -> Iterator[Entry]:
        """Say what all tasks have lost by their return to one version."""
        version, why = int(event.get("version", 0)), self.reason_back
        for made in sorted(one for one in self.applied if one > version):
            for iterations in self.applied.pop(made):
                iterations.rolled_back(why)
            what = f"the update that made version {made} is rolled back: all tasks return to version {version}"
            if self.subject and self.subject.role in ("update", "gradient"):
                yield Entry(line.t, line.t, line.seq, what, why)
        for number, one in self.gradients.items():
            if one.worker == self.worker:
                self.iterations.fates["discarded unused as all tasks went back"] += 1
            if self.subject == Node("gradient", (number,)):
                yield Entry(line.t, line.t, line.seq, "discarded unused, as all tasks went back", why)
        self.gradients.clear()
        for node, t in self.causes.overtaken():
            if str(self.subject) in ("None", node):
                what = f"the restart of {node} that was ordered at {t:.3f} s is void: all tasks went back before"
                yield Entry(line.t, line.t, line.seq, what, why)

    def _of_commands(self, line: RawLine) -> Iterator[Entry]:
        version = line.version - sum(command.get("type") == "Apply" for command in line.commands)
        why = reason_of(line, self.state, self.causes.of_timer(line.event or {}))
        self.causes.note_orders(line)
        orders: dict[str, list[str]] = {}
        for command in line.commands:
            kind = command.get("type")
            if kind == "Apply":
                version += 1
                yield from self._on_applied(line, command, version, why)
            elif kind == "Drop":
                yield from self._on_dropped(line, command, why)
            elif kind == "Compute":
                if command.get("worker") == self.worker:
                    yield from self._on_ordered(line, command, why)
            elif kind not in ("Wake", "Evaluate", "Checkpoint") and self._is_shown(command):
                orders.setdefault(command_in_words(command), []).append(str(command.get("node", "")))
        for order, nodes in orders.items():
            where = ", ".join(filter(None, nodes)) if self.subject is None else ""
            yield Entry(line.t, line.t, line.seq, f"{where}: {order}" if where else order, why)
        news = change_of_state(self.state, line.state)
        if self.subject is None and news and not orders and self.state is not None:
            yield Entry(line.t, line.t, line.seq, f"the strategy decides: {news}", event_in_words(line.event or {}))

    def _on_applied(self, line: RawLine, command: Fields, version: int, why: str) -> Iterator[Entry]:
        ids: list[int] = [number for number in command.get("grads", ()) if number in self.gradients]
        used = {number: self.gradients.pop(number) for number in ids}
        for number, one in used.items():
            if one.worker == self.worker:
                self.iterations.fates[APPLIED] += 1
                self.applied.setdefault(version, []).append(self.iterations)
            if self.subject == Node("gradient", (number,)):
                late = version - 1 - one.version
                what = f"applied: the update made version {version}; the gradient was {late} updates old"
                self.applied[version] = []
                yield Entry(line.t, line.t, line.seq, what, why)
        if self.subject == Node("update", (version,)) and used:
            self.applied[version] = []
            self.known = True
            for number, one in sorted(used.items(), key=lambda item: item[1].t):
                waited = f", then waited {line.t - one.t:.3g} s" if line.t > one.t else ""
                age = version - 1 - one.version
                what = f"gradient {number} of worker:{one.worker} arrived: {one.samples} samples, {age} updates old"
                yield Entry(one.t, one.t, one.seq, what + waited)
            last = max(used.values(), key=lambda one: one.t)
            waiting = f"; worker:{last.worker} came last" if len(used) > 1 else ""
            yield Entry(line.t, line.t, line.seq, f"the update made version {version}{waiting}", why)

    def _on_dropped(self, line: RawLine, command: Fields, why: str) -> Iterator[Entry]:
        fate = "dropped, samples requeued" if command.get("requeue", True) else "dropped for good"
        for number in command.get("grads", ()):
            one = self.gradients.pop(number, None)
            if one is not None and one.worker == self.worker:
                self.iterations.fates[fate] += 1
            if self.subject == Node("gradient", (number,)):
                old = "" if one is None else f"; it was {max(line.version - one.version, 0)} updates old"
                yield Entry(line.t, line.t, line.seq, fate + old, why)

    def _on_ordered(self, line: RawLine, command: Fields, why: str) -> Iterator[Entry]:
        if self.idle_since is not None:
            self.iterations.count_wait(line.t - self.idle_since, _whom(line.event or {}))
            self.idle_since = None
        samples = command.get("num_samples")
        if samples != self.samples:
            before = "" if self.samples is None else f" instead of {self.samples}"
            yield Entry(line.t, line.t, line.seq, f"{command_in_words(command)}{before}", why)
        self.samples = samples

    # ---- whom it concerns ----------------------------------------------------------------------------------------

    def _tells_job(self) -> bool:
        return self.subject is None or self.subject.role in ("worker", "server", "aggregator")

    def _is_of(self, fields: Fields) -> bool:
        """Whether an event, a command or a note names the subject; the whole job is named by all."""
        names_it = self.subject is not None and concerns(fields, self.subject)
        self.known |= names_it
        return self.subject is None or names_it

    def _is_shown(self, command: Fields) -> bool:
        """Whether a command that is not about gradients is part of the story."""
        if self.subject is None:
            return command.get("type") not in ("Send", "Score", "Replicate", "Partition")
        return self._is_of(command)


def _brief(event: Fields) -> Fields:
    return {name: value for name, value in event.items() if name not in LARGE}


def _whom(event: Fields) -> str:
    """The one that a wait was for, by the event that ended it."""
    grad = event.get("grad")
    if event.get("type") in ("Arrived", "Ready") and isinstance(grad, dict):
        return worker_name(grad["worker"])
    return f'the timer "{event.get("tag")}"' if event.get("type") == "Woke" else f"the event {event.get('type')}"
