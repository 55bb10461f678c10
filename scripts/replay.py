"""Replay a run's events to a fresh strategy, and check that it makes the same decisions.

python run.py replay runs/2024-11-21_08-00-00_ssp_transient_seed0                    # the whole run
python run.py replay runs/2024-11-21_08-00-00_ssp_transient_seed0 --until 41 --show  # step by step to line 41

The exit code is 0 for identical, 1 for the first difference, 2 for a record that cannot be replayed.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from analysis.records.schema import ROWS
from reading import Unreadable
from reading.files import read_bytes
from reading.plain import load_yaml
from runtime.config.foreign import plain_section
from runtime.config.instantiate import instantiate
from runtime.errors import ConfigError, print_error, refuse
from runtime.house import NAME
from runtime.record.meta import SCHEMA
from runtime.record.progress import counted
from runtime.record.replay import Malformed, RecordedEvent, Step, decode, replay
from runtime.run.streams import run_program
from strategies.protocol import Strategy

IDENTICAL, DIFFERENT = 0, 1
INDENT = "    "
MAX_BYTES = 4 << 30
"""Of a record's log, all lines of which are in memory."""


class RecordedEvents(msgspec.Struct, frozen=True):
    """The events to replay: those of lines 0 to ``last_seq``."""

    events: list[RecordedEvent]
    last_seq: int
    torn: bool


def main(argv: list[str] | None = None) -> int:
    """Replay one record; returns the exit code (see the module)."""
    try:
        arguments = _parser().parse_args(argv)
        record = read_record(arguments.run_dir, arguments.until)
        strategy = build_strategy(arguments.run_dir)
    except ConfigError as error:
        return print_error("replay", error)
    torn = " (without a torn last line)" if record.torn else ""
    print(f"record    {arguments.run_dir}, seq 0 to {record.last_seq}{torn}")
    print(f"strategy  {strategy!r}")
    return compare(record, strategy, show=arguments.show)


def compare(record: RecordedEvents, strategy: Strategy, *, show: bool) -> int:
    """Replay up to the first difference; print it, or every event with ``show``, and the result."""
    num_commands = num_states = 0
    events = record.events if show else counted(record.events, len(record.events), "asking the strategy again")
    for number, step in enumerate(replay(events, strategy)):
        if show or not step.identical:
            print("\n".join(transcript(step)))
        if not step.identical:
            print(f"result    different at seq {step.recorded.seq}, after {number} identical events")
            return DIFFERENT
        num_commands += len(step.commands)
        num_states += step.state is not None
    print(f"replayed  {len(record.events)} events, {num_commands} commands and {num_states} changes of state compared")
    print("result    identical")
    return IDENTICAL


# ---- the record -----------------------------------------------------------------------------------------------------


def read_record(run_dir: Path, until: int | None = None) -> RecordedEvents:
    """The events of a run up to line ``until``; a torn last line is left out. Raises :class:`ConfigError`."""
    if not run_dir.is_dir():
        raise ConfigError(f"{run_dir}: no such directory; name the directory of a run")
    check_schema(run_dir / "meta.json")
    if (run_dir / ROWS).exists():
        raise ConfigError(f"{run_dir / ROWS}: was recorded by rows, without decisions; repeat it with record=events")
    path = run_dir / "events.jsonl"
    lines, torn = split(path, read(path))
    try:
        recorded = decode(lines)
    except Malformed as error:
        raise damaged(path, error.number, error) from None
    if not recorded:
        raise ConfigError(f"{path}: holds no event, so there is nothing to compare")
    if until is not None and not recorded[0].seq <= until < len(lines):
        raise ConfigError(
            f"--until {until}: must be {recorded[0].seq} (the first event) to {len(lines) - 1} (the last line)"
        )
    last_seq = len(lines) - 1 if until is None else until
    return RecordedEvents(events=[line for line in recorded if line.seq <= last_seq], last_seq=last_seq, torn=torn)


def check_schema(path: Path) -> None:
    """Refuse another schema, in which the same words may have another meaning."""
    try:
        meta = msgspec.json.decode(read(path), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}; the file is damaged") from None
    if meta.get("schema") != SCHEMA:
        raise ConfigError(f"{path}: not of schema {SCHEMA}; use the version of Stragglab that wrote it")


def split(path: Path, data: bytes) -> tuple[list[object], bool]:
    """The lines as plain data, and whether a torn one follows them."""
    *whole, rest = data.split(b"\n")
    lines = []
    for number, line in enumerate([*whole, rest] if rest else whole, start=1):
        try:
            lines.append(msgspec.json.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if number > len(whole):
                return lines, True
            raise damaged(path, number, error) from None
    return lines, False


def read(path: Path) -> bytes:
    """Content of a record's file; raises :class:`ConfigError` if it cannot be read."""
    if not path.exists():
        raise ConfigError(f"{path}: missing; name the directory of a run")
    try:
        return read_bytes(path, MAX_BYTES)
    except Unreadable as error:
        raise ConfigError(f"{path}: {error}") from None


def damaged(path: Path, number: int, error: Exception) -> ConfigError:
    """The error of a damaged record, naming the line."""
    return ConfigError(f"{path}:{number}: {error}; the record is damaged or of another version of Stragglab")


# ---- the strategy ---------------------------------------------------------------------------------------------------


def build_strategy(run_dir: Path) -> Strategy:
    """A fresh strategy from the run's stored configuration; raises :class:`ConfigError`."""
    path = run_dir / ".hydra" / "config.yaml"
    spec = read_spec(path)
    try:
        strategy: Strategy = instantiate(spec, "strategy")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error} (meta.json says which version made the run)") from None
    return strategy


def read_spec(path: Path) -> dict[str, Any]:
    """The configuration's ``strategy`` section. No other file of a record names the class."""
    if not path.is_file():
        raise ConfigError(f"{path}: missing; only it names the strategy's class, meta.json has just the fields")
    try:
        return plain_section(load_yaml(path), "strategy", Path.cwd())
    except Unreadable as error:
        raise ConfigError(f"{path}: {error}; the file is damaged or of another version of Stragglab") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


# ---- as text --------------------------------------------------------------------------------------------------------


def transcript(step: Step) -> Iterator[str]:
    """The event, and below it the answer: once if it is the same, else expected and got."""
    recorded = step.recorded
    yield f"seq {recorded.seq}, t {recorded.event.t}"
    yield f"{INDENT}{in_words(recorded.event)}"
    if step.same_commands:
        yield from answered(recorded, INDENT)
    else:
        yield f"{INDENT}expected (as recorded):"
        yield from list(answered(recorded, 2 * INDENT)) or [f"{2 * INDENT}no command"]
        yield f"{INDENT}got (now):"
        yield from list(answered(step, 2 * INDENT)) or [f"{2 * INDENT}{step.raised or 'no command'}"]
    if not step.same_state:
        yield f"{INDENT}expected state (as recorded): {state_in_words(recorded.state)}"
        yield f"{INDENT}got state (now): {state_in_words(step.state)}"
    elif recorded.state is not None:
        yield f"{INDENT}state: {state_in_words(recorded.state)}"


def answered(answer: RecordedEvent | Step, indent: str) -> Iterator[str]:
    """One line per command."""
    for command in answer.commands:
        yield f"{indent}-> {in_words(command)}"


def in_words(what: msgspec.Struct) -> str:
    """An event or a command with all its fields, except for an event's time, which precedes it."""
    said = {name: value for name, value in fields_of(what).items() if name != "t"}
    return f"{type(what).__name__}: {listed(said)}" if said else type(what).__name__


def fields_of(what: msgspec.Struct) -> dict[str, Any]:
    """The fields that are not absent."""
    return {name: value for name, value in msgspec.structs.asdict(what).items() if value not in (None, ())}


def state_in_words(state: Mapping[str, Any] | None) -> str:
    """The dict that ``log_state`` returned, as text."""
    return "unchanged" if state is None else listed(state) or "empty"


def listed(fields: Mapping[str, Any]) -> str:
    """The fields' names and values as text."""
    return ", ".join(f"{name} {shown(value)}" for name, value in fields.items())


def shown(value: Any) -> str:
    """A value to the last digit; equal neighbours in a list are counted, since weights are many."""
    if isinstance(value, msgspec.Struct):
        value = fields_of(value)
    if isinstance(value, Mapping):
        return f"({listed(value)})"
    if isinstance(value, list | tuple):
        runs = [(same, len(list(run))) for same, run in groupby(value)]
        return f"[{', '.join(f'{count} x {shown(same)}' if count > 1 else shown(same) for same, count in runs)}]"
    return repr(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{NAME} replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="the directory of a run")
    parser.add_argument("--until", metavar="N", type=int, help="stop after the line with seq N")
    parser.add_argument("--show", action="store_true", help="print every event with the commands that it caused")
    parser.error = refuse  # type: ignore[method-assign]
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # so that `| head` ends it without a traceback
    run_program("replay", main)
