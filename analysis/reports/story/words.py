"""Events, commands, notes and disturbances in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.records.nodes import parse_node
from analysis.reports.story.lines import Fields, RawLine
from reading.effects import effect

TEXT_LENGTH = 400
"""Longer values are cut; the line in the log has all of it."""


def fields_text(fields: Mapping[str, Any], *without: str) -> str:
    """Fields as ``name value, name value``, without those that are named and those that are empty."""
    said = [
        f"{name} {value_text(value)}"
        for name, value in fields.items()
        if name not in ("type", "t", *without) and value not in (None, "", [], {})
    ]
    return ", ".join(said)


def value_text(value: Any) -> str:
    """A value of the record as text of bounded length."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        text = f"[{', '.join(map(value_text, value))}]"
    elif isinstance(value, dict):
        text = f"({fields_text(value)})"
    else:
        text = str(value)
    return text if len(text) <= TEXT_LENGTH else f"{text[:TEXT_LENGTH]}..."


EVENTS = {
    "Started": "the job started",
    "Arrived": "gradient {grad[id]} of worker:{grad[worker]} arrived",
    "Ready": "gradient {grad[id]} of worker:{grad[worker]} was ready to be sent",
    "Scored": "gradient {grad[id]} of worker:{grad[worker]} was scored",
    "Woke": 'the timer "{tag}" of the strategy fired',
    "Lost": "worker:{worker} was lost ({reason})",
    "Failed": "worker:{worker} failed ({reason})",
    "Joined": "worker:{worker} joined",
    "ServerLost": "server:{server} was lost ({reason})",
    "ServerJoined": "server:{server} joined",
    "Restored": "the parameters of version {version} were restored",
    "Denied": "{node} was denied ({reason})",
    "Observed": "the use of resources was reported",
    "Evaluated": "the parameters of version {version} were evaluated",
}
"""An event as a clause; others appear with their types and fields."""
NOTES = {
    "Starved": "waits for data: no samples are free now",
    "Launched": "the process starts (incarnation {incarnation})",
    "Exited": "the process has ended (incarnation {incarnation}): {reason}",
    "Fenced": "messages of incarnation {incarnation} are ignored from here on: {reason}",
    "Restarting": "the restart waits {pending_s:g} s for a machine",
    "Requested": "the requested node waits {pending_s:g} s for a machine",
    "Rollback": "all tasks go back to the last checkpoint: {reason}",
    "Deferred": "the order to {order} waits until all tasks continue",
    "Jumped": "{seconds:g} s were skipped, with iterations like the measured ones",
    "Repartitioning": "the parameters move to other servers, or in other shares",
    "Finished": "the run ended: {status} ({reason})",
}
"""A fact of the runtime as a sentence."""
OF_SUBJECT = ("node", "task", "role", "id")
"""Fields of notes that name the subject, whose story it is."""


def event_in_words(event: Fields) -> str:
    """The event that caused a decision, as a clause: ``gradient 17 of worker:1 arrived``."""
    return _sentence(EVENTS, event) or " ".join((str(event.get("type", "an event")), fields_text(event))).strip()


def command_in_words(command: Fields) -> str:
    """A command of the strategy to or about a node: ``the strategy orders Restart``."""
    match command:
        case {"type": "Compute", "num_samples": samples}:
            return f"the strategy orders a gradient of {samples} samples"
        case _:
            said = fields_text(command, "node")
            return f"the strategy orders {command.get('type', 'a command')}" + (f" ({said})" if said else "")


def note_in_words(note: Fields) -> str:
    """A fact of the runtime: a sentence, or its type and fields."""
    said = fields_text(note, *OF_SUBJECT)
    return _sentence(NOTES, note) or f"{note.get('type', 'a note')}" + (f" ({said})" if said else "")


def _sentence(sentences: Mapping[str, str], fields: Fields) -> str:
    """The sentence for this type; empty if there is none, or if fields are missing or of another type."""
    try:
        return sentences.get(str(fields.get("type")), "").format_map(fields).removesuffix(" ()")
    except (KeyError, TypeError, ValueError):
        return ""


def window_in_words(window: Fields, begins: bool) -> str:
    """A disturbance of the plan begins or ends."""
    kind, magnitude = str(window.get("kind")), window.get("magnitude")
    words = ""
    if isinstance(magnitude, int | float):
        words = effect(kind, magnitude, on=parse_node(window.get("target")).role)
    size = f" ({words})" if any(map(str.isdigit, words)) else ""  # a kill has none
    return f"the plan's {kind}{size} {'begins' if begins else 'ends'}"


def change_of_state(before: Fields | None, after: Fields | None) -> str:
    """Fields of the strategy's state that have changed, without those that only count."""
    if after is None:
        return ""
    before = before or {}
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    news = {name: value for name, value in changed.items() if not _counts(before.get(name), value)}
    return fields_text(news)


def _counts(before: Any, after: Any) -> bool:
    """Whether a number has gone on counting, or begins again from 0."""
    whole = type(after) is int and (before is None or type(before) is int)
    return whole and (after in (0, 1) or after == (before or 0) + 1)


def reason_of(line: RawLine, before: Fields | None, timer_set: str = "") -> str:
    """Why the commands of a line were given: its event, and the changes of the strategy's state.

    ``timer_set``: of a timer the event at which it was set.
    """
    event = event_in_words(line.event or {})
    event += f"; it was set when {timer_set}" if timer_set else ""
    news = change_of_state(before, line.state)
    return f"{event}; {news}" if news else event
