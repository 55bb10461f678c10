"""A strategy's recorded questions and answers, and a fresh strategy for the same questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, takewhile
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
from runtime.errors import ConfigError, no_directory
from runtime.record.meta import SCHEMA
from runtime.record.replay import Malformed, RecordedEvent, decode
from runtime.run.probing import reason
from strategies.protocol import Strategy

MAX_META_BYTES = 64 * MIB


@dataclass(frozen=True)
class RecordedEvents:
    """The ``count`` events to replay, of lines 0 to ``last_seq``, which every pass reads again from the log."""

    path: Path
    count: int
    last_seq: int
    torn: bool

    def __iter__(self) -> Iterator[RecordedEvent]:
        return takewhile(lambda event: event.seq <= self.last_seq, _decode(self.path, Lines(self.path)))


class Lines:
    """The lines of a log as plain data; once they were passed, how many they are, and whether a torn one follows."""

    def __init__(self, path: Path) -> None:
        self.path, self.count, self.torn = path, 0, False

    def __iter__(self) -> Iterator[object]:
        with _open_file(self.path) as file:
            for text in chain.from_iterable(line_blocks(file)):
                try:
                    line = msgspec.json.decode(text)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    if not text.endswith(b"\n"):
                        self.torn = True
                        return
                    raise damage_error(self.path, self.count + 1, error) from None
                self.count += 1
                yield line


def read_record(run_dir: Path, until: int | None = None) -> RecordedEvents:
    """The events of a run up to line ``until``; a torn last line is left out. Raises :class:`ConfigError`."""
    if not run_dir.is_dir():
        raise ConfigError(f"{run_dir}: {no_directory(run_dir)}; name the directory of a run")
    check_schema(run_dir / "meta.json")
    if (run_dir / ROWS).exists():
        raise ConfigError(f"{run_dir / ROWS}: was recorded by rows, without decisions; repeat it with record=events")
    path = run_dir / "events.jsonl"
    lines, first, count = Lines(path), -1, 0
    for event in _decode(path, lines):  # nothing is asked before the whole record is known to be sound
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


def _decode(path: Path, lines: Iterable[object]) -> Iterator[RecordedEvent]:
    try:
        yield from decode(lines)
    except Malformed as error:
        raise damage_error(path, error.number, error) from None


@contextmanager
def _open_file(path: Path) -> Iterator[BinaryIO]:
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


def damage_error(path: Path, number: int, error: Exception) -> ConfigError:
    """The error of a damaged record, naming the line."""
    return ConfigError(f"{path}:{number}: {error}; the record is damaged or of another version of Stragglab")


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
