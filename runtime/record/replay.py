"""Tells a strategy again what a record says that it was told, and compares the answers (pure).

A strategy's answers depend on its fields and on the events so far, so a record is all that it takes to ask again.
Floats survive JSON exactly: the same means the same to the last bit. What was not a number is null in a record and
comes back as NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from runtime.core.answers import checked
from strategies.protocol import AnyCommand, AnyEvent, Evaluated, Strategy

State = dict[str, Any]
"""What ``log_state`` returned."""


class Malformed(ValueError):
    """Line ``number`` of a record (counted from 1) is not what ``docs/record.md`` promises."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(what)
        self.number = number


class Told(msgspec.Struct, frozen=True):
    """One event of a record with the answer; ``state`` is None where it did not change."""

    seq: int
    event: AnyEvent
    commands: tuple[AnyCommand, ...]
    state: State | None


class Step(msgspec.Struct, frozen=True):
    """What a fresh strategy answered to the same event. ``raised`` says why there is no answer, if there is none."""

    told: Told
    commands: tuple[AnyCommand, ...] = ()
    state: State | None = None
    raised: str = ""

    @property
    def same_commands(self) -> bool:
        """Bit for bit, in the same order."""
        return not self.raised and _bytes(self.commands) == _bytes(self.told.commands)

    @property
    def same_state(self) -> bool:
        """As far as there is one: nothing is asked of a strategy that raised."""
        return bool(self.raised) or _bytes(self.state) == _bytes(self.told.state)

    @property
    def identical(self) -> bool:
        """It decided as it did in the record."""
        return self.same_commands and self.same_state


def replay(told: Iterable[Told], strategy: Strategy) -> Iterator[Step]:
    """Ask ``strategy``, which must be fresh, event by event."""
    previous: State = {}
    for line in told:
        try:
            commands = _commands(_plain(list(checked(strategy, line.event, strategy.handle(line.event)))))
            state = strategy.log_state()
            changed = _plain(state) if state != previous else None
        except Exception as error:  # noqa: BLE001 (whatever it is: the recorded strategy gave an answer)
            yield Step(told=line, raised=f"{type(error).__name__}: {error}")
            continue
        previous = state
        yield Step(told=line, commands=commands, state=changed)


def decode(lines: Iterable[object]) -> list[Told]:
    """What the strategy was told, from the lines of a whole record as plain data; raises :class:`Malformed`.

    The final score is left out: it is recorded as an event after the job's end, when no strategy is asked any more.
    """
    told: list[Told] = []
    t, finished_s = 0.0, None
    for seq, plain in enumerate(lines):
        try:
            line = msgspec.convert(plain, _EventLine | _NoteLine)
            _check(line, seq, t)
            if isinstance(line, _EventLine):
                told.append(_told(line))
            elif line.note.get("type") == "Finished":
                finished_s = line.t
        except ValueError as error:
            raise Malformed(seq + 1, str(error)) from None
        t = line.t
    if told and _is_final_score(told[-1], finished_s):
        told.pop()
    return told


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
    """Events that are missing, or that changed places, would be blamed on the strategy."""
    if line.seq != seq:
        raise ValueError(f"seq {line.seq} where {seq} is due, so lines are missing or twice there")
    if line.t < before_s:
        raise ValueError(f"t goes back from {before_s} to {line.t}")
    if isinstance(line, _EventLine) and line.event.get("t") != line.t:
        raise ValueError(f"the event says t={line.event.get('t')}, its line t={line.t}")


def _told(line: _EventLine) -> Told:
    event = line.event
    if "metrics" in event:
        event = {**event, "metrics": _numbers(event["metrics"])}
    told: AnyEvent = msgspec.convert(event, AnyEvent)
    return Told(seq=line.seq, event=told, commands=_commands(line.commands), state=line.state)


def _is_final_score(last: Told, finished_s: float | None) -> bool:
    """By its dates alone; a record that was cut off may not say when the job ended."""
    event = last.event
    untold = isinstance(event, Evaluated) and event.asked_s == event.t and not last.commands and last.state is None
    return untold and finished_s in (None, event.t)


def _commands(plain: Sequence[Any]) -> tuple[AnyCommand, ...]:
    commands: tuple[AnyCommand, ...] = msgspec.convert(_numbers(plain), tuple[AnyCommand, ...])
    return commands


def _numbers(plain: Any) -> Any:
    """Null is how a record writes what is not a number; no other field of commands and metrics can be null."""
    if isinstance(plain, Mapping):
        return {key: _numbers(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_numbers(value) for value in plain]
    return math.nan if plain is None else plain


def _plain(value: Any) -> Any:
    """As a record would hold it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _bytes(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
