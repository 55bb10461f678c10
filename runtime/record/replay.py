"""Replays the events of a record to a fresh strategy and compares its answers (pure).

A strategy's answers depend only on its fields and on the events so far, so a record suffices to ask it again. Floats
survive JSON exactly, so answers are compared to the last bit. NaN is null in a record and is read back as NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from runtime.core.answers import checked
from strategies.protocol import AnyCommand, AnyEvent, Evaluated, Strategy

State = dict[str, Any]
"""The dict that ``log_state`` returned."""


class Malformed(ValueError):
    """Line ``number`` of a record (counted from 1) is not what ``docs/record.md`` promises."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(what)
        self.number = number


class RecordedEvent(msgspec.Struct, frozen=True):
    """One event of a record with the strategy's answer; ``state`` is None where it did not change."""

    seq: int
    event: AnyEvent
    commands: tuple[AnyCommand, ...]
    state: State | None


class Step(msgspec.Struct, frozen=True):
    """The answer of a fresh strategy to the same event. ``raised`` is the error if there is no answer."""

    recorded: RecordedEvent
    commands: tuple[AnyCommand, ...] = ()
    state: State | None = None
    raised: str = ""

    @property
    def same_commands(self) -> bool:
        """Whether the commands are equal bit for bit, in the same order."""
        return not self.raised and _bytes(self.commands) == _bytes(self.recorded.commands)

    @property
    def same_state(self) -> bool:
        """Whether the logged states are equal; true if the strategy raised, which leaves no state to compare."""
        return bool(self.raised) or _bytes(self.state) == _bytes(self.recorded.state)

    @property
    def identical(self) -> bool:
        """Whether the strategy decided as in the record."""
        return self.same_commands and self.same_state


def replay(events: Iterable[RecordedEvent], strategy: Strategy) -> Iterator[Step]:
    """Ask ``strategy``, which must be fresh, event by event."""
    previous: State = {}
    for line in events:
        try:
            commands = _commands(_plain(list(checked(strategy, line.event, strategy.handle(line.event)))))
            state = strategy.log_state()
            changed = _plain(state) if state != previous else None
        except Exception as error:  # noqa: BLE001 (any error is a difference: the recorded strategy answered)
            yield Step(recorded=line, raised=f"{type(error).__name__}: {error}")
            continue
        previous = state
        yield Step(recorded=line, commands=commands, state=changed)


def decode(lines: Iterable[object]) -> Iterator[RecordedEvent]:
    """The events that the strategy received, from the lines of a complete record; raises :class:`Malformed`.

    The final score is left out: it is recorded as an event after the job's end, when strategies are no longer asked.
    """
    last: RecordedEvent | None = None
    t, finished_s = 0.0, None
    for seq, plain in enumerate(lines):
        try:
            line = msgspec.convert(plain, _EventLine | _NoteLine)
            _check(line, seq, t)
            if isinstance(line, _EventLine):
                found = _read_event(line)
                if last is not None:
                    yield last
                last = found
            elif line.note.get("type") == "Finished":
                finished_s = line.t
        except ValueError as error:
            raise Malformed(seq + 1, str(error)) from None
        t = line.t
    if last is not None and not _is_final_score(last, finished_s):
        yield last


class _EventLine(msgspec.Struct, frozen=True, tag_field="kind", tag="event"):
    seq: int
    t: float
    event: dict[str, Any]
    commands: list[Any]
    state: State | None = None


class _NoteLine(msgspec.Struct, frozen=True, tag_field="kind", tag="note"):
    seq: int
    t: float
    note: dict[str, Any]


def _check(line: _EventLine | _NoteLine, seq: int, before_s: float) -> None:
    """Reject missing or reordered events, which would otherwise be blamed on the strategy."""
    if line.seq != seq:
        raise ValueError(f"seq {line.seq} where {seq} is due, so lines are missing or duplicated")
    if line.t < before_s:
        raise ValueError(f"t decreases from {before_s} to {line.t}")
    if isinstance(line, _EventLine) and line.event.get("t") != line.t:
        raise ValueError(f"the event says t={line.event.get('t')}, its line t={line.t}")


def _read_event(line: _EventLine) -> RecordedEvent:
    event = line.event
    if "metrics" in event:
        event = {**event, "metrics": _numbers(event["metrics"])}
    parsed: AnyEvent = msgspec.convert(event, AnyEvent)
    return RecordedEvent(seq=line.seq, event=parsed, commands=_commands(line.commands), state=line.state)


def _is_final_score(last: RecordedEvent, finished_s: float | None) -> bool:
    """Decided by its time alone; a truncated record may not say when the job ended."""
    event = last.event
    untold = isinstance(event, Evaluated) and event.asked_s == event.t and not last.commands and last.state is None
    return untold and finished_s in (None, event.t)


def _commands(plain: Sequence[Any]) -> tuple[AnyCommand, ...]:
    commands: tuple[AnyCommand, ...] = msgspec.convert(_numbers(plain), tuple[AnyCommand, ...])
    return commands


def _numbers(plain: Any) -> Any:
    """Turn null back into NaN; no other field of commands and metrics can be null."""
    if isinstance(plain, Mapping):
        return {key: _numbers(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_numbers(value) for value in plain]
    return math.nan if plain is None else plain


def _plain(value: Any) -> Any:
    """The value as a record would hold it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _bytes(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
