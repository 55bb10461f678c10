"""Replay a run's events to a fresh strategy, and check that it makes the same decisions.

python run.py replay runs/2024-11-21_08-00-00_ssp_transient_seed0                    # the whole run
python run.py replay runs/2024-11-21_08-00-00_ssp_transient_seed0 --until 41 --show  # step by step to line 41

The exit code is 0 for identical, 1 for the first difference, 2 for a record that cannot be replayed.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, groupby, takewhile
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from analysis.records.schema import ROWS
from reading import Unreadable
from reading.files import MIB, open_file, read_bytes
from reading.lines import line_blocks
from reading.plain import load_yaml, parse_json
from runtime.config.foreign import plain_section
from runtime.config.instantiate import instantiate
from runtime.errors import ConfigError, print_error, refuse
from runtime.house import NAME
from runtime.record.meta import SCHEMA
from runtime.record.progress import counted
from runtime.record.replay import Malformed, RecordedEvent, Step, decode, replay
from runtime.run.probing import reason
from runtime.run.streams import run_program
from strategies.protocol import Strategy

IDENTICAL, DIFFERENT = 0, 1
INDENT = "    "
MAX_META_BYTES = 64 * MIB


@dataclass(frozen=True)
class RecordedEvents:
    """The ``count`` events to replay: those of lines 0 to ``last_seq``, which every pass reads again from the log."""

    path: Path
    count: int
    last_seq: int
    torn: bool

    def __iter__(self) -> Iterator[RecordedEvent]:
        return takewhile(lambda event: event.seq <= self.last_seq, _decoded(self.path, Lines(self.path)))


class Lines:
    """The lines of a log as plain data; once they were passed, how many they are, and whether a torn one follows."""

    def __init__(self, path: Path) -> None:
        self.path, self.count, self.torn = path, 0, False

    def __iter__(self) -> Iterator[object]:
        with _opened(self.path) as file:
            for text in chain.from_iterable(line_blocks(file)):
                try:
                    line = msgspec.json.decode(text)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    if not text.endswith(b"\n"):
                        self.torn = True
                        return
                    raise damaged(self.path, self.count + 1, error) from None
                self.count += 1
                yield line


def main(argv: list[str] | None = None) -> int:
    """Replay one record; returns the exit code (see the module)."""
    try:
        arguments = _parser().parse_args(argv)
        record = read_record(arguments.run_dir, arguments.until)
        strategy = build_strategy(arguments.run_dir)
        torn = " (without a torn last line)" if record.torn else ""
        print(f"record    {arguments.run_dir}, seq 0 to {record.last_seq}{torn}")
        print(f"strategy  {strategy!r}")
        return compare(record, strategy, show=arguments.show)
    except ConfigError as error:
        return print_error("replay", error)


def compare(record: RecordedEvents, strategy: Strategy, *, show: bool) -> int:
    """Replay up to the first difference; print it, or every event with ``show``, and the result."""
    num_commands = num_states = 0
    events = record if show else counted(record, record.count, "asking the strategy again")
    for number, step in enumerate(replay(events, strategy)):
        if show or not step.identical:
            print("\n".join(transcript(step)))
        if not step.identical:
            print(f"result    different at seq {step.recorded.seq}, after {number} identical events")
            return DIFFERENT
        num_commands += len(step.commands)
        num_states += step.state is not None
    print(f"replayed  {record.count} events, {num_commands} commands and {num_states} changes of state compared")
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
    lines, first, count = Lines(path), -1, 0
    for event in _decoded(path, lines):  # nothing is asked before the whole record is known to be sound
        first = event.seq if first < 0 else first
        count += until is None or event.seq <= until
    if first < 0:
        raise ConfigError(f"{path}: holds no event, so there is nothing to compare")
    if until is not None and not first <= until < lines.count:
        raise ConfigError(f"--until {until}: must be {first} (the first event) to {lines.count - 1} (the last line)")
    return RecordedEvents(path, count, lines.count - 1 if until is None else until, lines.torn)


def check_schema(path: Path) -> None:
    """Refuse another schema, in which the same words may have another meaning."""
    if not path.exists():
        raise ConfigError(f"{path}: missing; name the directory of a run")
    try:
        meta = parse_json(read_bytes(path, MAX_META_BYTES), dict[str, Any])
    except Unreadable as error:
        raise ConfigError(f"{path}: {error}; the file is damaged") from None
    if meta.get("schema") != SCHEMA:
        raise ConfigError(f"{path}: not of schema {SCHEMA}; use the version of Stragglab that wrote it")


def _decoded(path: Path, lines: Iterable[object]) -> Iterator[RecordedEvent]:
    try:
        yield from decode(lines)
    except Malformed as error:
        raise damaged(path, error.number, error) from None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A record's file; raises :class:`ConfigError` if it cannot be read, then or later."""
    if not path.exists():
        raise ConfigError(f"{path}: missing; name the directory of a run")
    try:
        with open_file(path) as file:
            yield file
    except Unreadable as error:
        raise ConfigError(f"{path}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({reason(error)})") from None


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
