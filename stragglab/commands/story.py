"""Why did that happen? The story of a task, an update, a gradient or a job, from the record alone.

python run.py story runs/a                                   # the whole job: stragglers, decisions, losses, the end
python run.py story runs/a worker:3                          # one worker: orders, iterations, waits, restarts
python run.py story runs/a worker:3 --from 10 --to 20        # between two times (seconds of the job)
python run.py story runs/a update:40                         # the workers for which the update to version 40 waited
python run.py story runs/a gradient:17                       # the fate of a gradient
python run.py story runs/a_set b                             # a set of jobs: why job b waited

Every line has its time in seconds, its line in the log (seq), the event, and after "because" its cause, if the record
has one. The exit code is 0, or 2 if there is no such record or subject.
"""

from __future__ import annotations

import argparse
import math
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.records.load import CLUSTER_EVENTS, LOG, load_object
from analysis.records.log import RecordError, of_record
from analysis.records.schema import ROWS
from analysis.reports.story.jobs import tell_job
from analysis.reports.story.lines import read_lines
from analysis.reports.story.subjects import parse_subject
from analysis.reports.story.telling import Entry, Story, tell
from reading.harmless import harmless
from runtime.errors import ConfigError, print_error, refuse
from runtime.house import NAME
from runtime.record.progress import said_late
from runtime.run.streams import run_program

KEPT = "the record is as it was; the same command starts again"
"""Printed after a signal."""


def main(argv: Sequence[str] | None = None) -> int:
    """Tell one story; returns the exit code (see the module)."""
    try:
        arguments = _parser().parse_args(argv)
        if arguments.start > arguments.end:
            raise ConfigError(f"--from {arguments.start:g}: must not be later than --to {arguments.end:g}")
        with said_late("reading the log"):
            story = _story(arguments.record, arguments.subject, arguments.start, arguments.end)
    except (ConfigError, RecordError) as error:
        return print_error("story", error)
    about = arguments.subject or "the job"
    if not story.entries:
        print(f"the record names {about} nowhere between {arguments.start:g} s and {arguments.end:g} s")
    for line in in_columns(story.entries):
        print(harmless(line))
    if (arguments.record / ROWS).exists():
        print(f"iterations and commands were recorded as rows ({ROWS}); record=events has the whole story")
    return 0


def in_columns(entries: Sequence[Entry]) -> list[str]:
    """The entries as lines of text, with a head."""
    if not entries:
        return []
    times = [f"{one.t:.3f}" if one.t == one.until else f"{one.t:.3f} to {one.until:.3f}" for one in entries]
    width, seqs = max(map(len, [*times, "seconds"])), max(len(str(entries[-1].seq)), 3)
    lines = [f"{'seconds':>{width}}  {'seq':>{seqs}}  what happened"]
    for time, one in zip(times, entries, strict=True):
        lines.append(f"{time:>{width}}  {one.seq:>{seqs}}  {one.what}")
        if one.why:
            lines.append(f"{'':{width + seqs + 4}}because {one.why}")
    return lines


def _story(record: Path, subject: str | None, start_s: float, end_s: float) -> Story:
    """The story of a run's or a set's subject; raises :class:`ConfigError` or :class:`RecordError`."""
    if (record / CLUSTER_EVENTS).is_file():
        with of_record(record):
            story = _of_set(record, subject)
        story = story._replace(entries=[one for one in story.entries if start_s <= one.t <= end_s])
        cure = f"no job of this set; a job's own tasks: story {record / 'jobs'}/NAME worker:0"
    elif (record / LOG).is_file():
        try:
            about = None if subject is None else parse_subject(subject)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        with of_record(record):
            windows: list[dict[str, Any]] = load_object(record / "plan.json")["disturbances"]
            story = tell(read_lines(record / LOG), windows, about, start_s, end_s)
        cure = f"{record} never names it; without a subject the story is the whole job's"
        if (record / ROWS).exists():
            cure = f"{record} has iterations and updates as rows ({ROWS}); repeat it with record=events"
    else:
        raise ConfigError(f"{record}: holds no record; name the directory of a run or of a set of jobs")
    if not story.known:
        raise ConfigError(f"{subject}: {cure}")
    return story


def _of_set(record: Path, job: str | None) -> Story:
    about = load_object(record / "meta.json")["cluster"]
    return tell_job(read_lines(record / CLUSTER_EVENTS), int(about["gpus"]), str(about["policy"]), job)


def _seconds(text: str) -> float:
    """A time on the command line."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise argparse.ArgumentTypeError(f"{text}: must be a number of seconds")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{NAME} story", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("record", metavar="RECORD", type=Path, help="the directory of a run or of a set of jobs")
    subject = "worker:N, server:N, host:N, update:VERSION, gradient:ID, or a job of a set (default: all of it)"
    parser.add_argument("subject", metavar="SUBJECT", nargs="?", help=subject)
    parser.add_argument("--from", dest="start", metavar="S", type=_seconds, default=0.0, help="seconds of the job")
    parser.add_argument("--to", dest="end", metavar="S", type=_seconds, default=math.inf, help="seconds of the job")
    parser.error = refuse  # type: ignore[method-assign]
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # so that `| head` ends it without a traceback
    run_program("story", main)
