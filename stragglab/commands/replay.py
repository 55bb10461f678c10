"""Replay a run's events to a fresh strategy, and check that it makes the same decisions.

python run.py replay runs/2024-11-21_08-00-00_ssp_transient_seed0                    # the whole run
python run.py replay runs/2024-11-21_08-00-00_ssp_transient_seed0 --until 41 --show  # step by step to line 41

The exit code is 0 if all decisions are identical, 1 at the first difference, 2 for a record that cannot be replayed.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from runtime.errors import ConfigError, print_error, refuse
from runtime.house import NAME
from runtime.record.progress import counted
from runtime.record.replay import RecordedEvent, Step, replay
from runtime.run.streams import run_program
from stragglab.vouching.replaying import RecordedEvents, build_strategy, read_record
from strategies.protocol import Strategy

IDENTICAL, DIFFERENT = 0, 1
INDENT = "    "


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


# ---- as text --------------------------------------------------------------------------------------------------------


def transcript(step: Step) -> Iterator[str]:
    """The event, and below it the answer: once if it is the same, else expected and got."""
    recorded = step.recorded
    yield f"seq {recorded.seq}, t {recorded.event.t}"
    yield f"{INDENT}{in_words(recorded.event)}"
    if step.same_commands:
        yield from command_lines(recorded, INDENT)
    else:
        yield f"{INDENT}expected (as recorded):"
        yield from list(command_lines(recorded, 2 * INDENT)) or [f"{2 * INDENT}no command"]
        yield f"{INDENT}got (now):"
        yield from list(command_lines(step, 2 * INDENT)) or [f"{2 * INDENT}{step.raised or 'no command'}"]
    if not step.same_state:
        yield f"{INDENT}expected state (as recorded): {state_in_words(recorded.state)}"
        yield f"{INDENT}got state (now): {state_in_words(step.state)}"
    elif recorded.state is not None:
        yield f"{INDENT}state: {state_in_words(recorded.state)}"


def command_lines(answer: RecordedEvent | Step, indent: str) -> Iterator[str]:
    """One line per command."""
    for command in answer.commands:
        yield f"{indent}-> {in_words(command)}"


def in_words(what: msgspec.Struct) -> str:
    """An event or a command with all its fields, except for an event's time, which precedes it."""
    said = {name: value for name, value in fields_of(what).items() if name != "t"}
    return f"{type(what).__name__}: {fields_text(said)}" if said else type(what).__name__


def fields_of(what: msgspec.Struct) -> dict[str, Any]:
    """The fields that are not absent."""
    return {name: value for name, value in msgspec.structs.asdict(what).items() if value not in (None, ())}


def state_in_words(state: Mapping[str, Any] | None) -> str:
    """The dict that ``log_state`` returned, as text."""
    return "unchanged" if state is None else fields_text(state) or "empty"


def fields_text(fields: Mapping[str, Any]) -> str:
    """The fields' names and values as text."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in fields.items())


def value_text(value: Any) -> str:
    """A value to the last digit; equal neighbours in a list are counted, since weights are many."""
    if isinstance(value, msgspec.Struct):
        value = fields_of(value)
    if isinstance(value, Mapping):
        return f"({fields_text(value)})"
    if isinstance(value, list | tuple):
        runs = [(value_text(same), len(list(run))) for same, run in groupby(value)]
        return f"[{', '.join(f'{count} x {text}' if count > 1 else text for text, count in runs)}]"
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
