"""Lines of programs that count the iterations of epochs: PyTorch's examples, OpenMMLab's, Paddle's and many others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import nan
from typing import NamedTuple

from analysis.logs.limits import LEAST_PRINTED_S, MILLI, MOST_SECONDS, MOST_STEP
from analysis.logs.lines import Line, positive, ranks_of, whole
from analysis.logs.rows import Rows

NUMBERED = re.compile(r"\b(?:global_step=|global_step: |iter: |Iter(?:\(train\))? \[ {0,9})(\d++)\b(?! *+\|)")
"""Iterations since the job began."""
OF_EPOCH = re.compile(
    r"\b(?:[Ee]poch|Train)(?:\(train\))?:? {0,3}\[ {0,9}(\d++)(?:/ {0,9}\d++)?\],? {0,3}"
    r"\[ {0,9}(\d++)(?:/ {0,9}(\d++))?\]"
)
"""Epoch, iteration in it, and perhaps how many iterations an epoch has."""
TIME = re.compile(
    r"(?<![\w/])(?:step_time|(?:avg_)?batch_cost|batch_time|[Tt]ime)[:=]?\s{0,9}([\d.]++)(ms\b)?(?![\d:])"
    r"(?:\s{0,9}\(\s{0,9}([\d.]++)\))?"
)
"""Seconds or milliseconds; in brackets their mean since the epoch's begin."""
LOADING = re.compile(
    r"(?<![\w/])(?:data_time|(?:avg_)?reader_cost|data_cost|[Dd]ata)[:=]?\s{0,9}([\d.]++)(ms\b)?(?![\d:])"
    r"(?:\s{0,9}\(\s{0,9}([\d.]++)\))?"
)
TRAINS = ("poch", "Train", "Iter", "iter: ", "global_step")
"""Every such line has one of these; other lines need no expression."""
ONE_CLOCK = (
    "these lines have whole iterations by the clock of the process that printed them: the tail is known, ranks are "
    "not; a line of every rank, with a prefix of its rank and its own time of computing, would tell them"
)


class Said(NamedTuple):
    """A line: its epoch (None: its number counts from the job's begin), its number, and how many an epoch has.

    ``time`` and ``loading`` are what the expressions have found.
    """

    epoch: int | None
    number: int
    length: int | None
    where: str
    time: re.Match[str]
    loading: re.Match[str] | None

    @property
    def is_first(self) -> bool:
        """Return whether its iteration starts an epoch; the mean of the next line includes it, and the set-up."""
        return self.epoch is not None and self.number == 0 and self.time[3] is not None


def is_epoch_line(line: Line) -> bool:
    """Whether a line is one of an iteration of training."""
    return _match(line.text) is not None


def read_epoch_lines(source: str, lines: Iterable[Line]) -> Rows:
    """Iterations of every process that was printed, numbered since the job began.

    The first line of an epoch is of an iteration that waits for the loader to start: one line of many would count as
    all iterations until the next line, so the mean of the next line is used, which includes it.

    Raises:
        LogError: a number is none.
    """
    rows = Rows(source, "a line for every iteration", remarks=[ONE_CLOCK])
    processes, found = list[tuple[str, ...]](), list[tuple[int, float, float]]()
    counters, waiting = dict[tuple[str, ...], _Counter](), dict[tuple[str, ...], Said]()

    def take(process: tuple[str, ...], one: Said, mean: bool) -> None:
        processes.append(process)
        step = counters.setdefault(process, _Counter()).count(one)
        step_s = max(_seconds(one.time, one.where, mean), LEAST_PRINTED_S)
        found.append((step, step_s, min(step_s, _seconds(one.loading, one.where, mean)) if one.loading else nan))
        rows.sampled = rows.sampled or (one.time[3] is not None and not mean)

    for line in lines:
        if (one := _parse(line, source)) is None:
            continue
        before = waiting.pop(line.process, None)
        if one.is_first:
            waiting[line.process] = one
        same = before is not None and before.epoch == one.epoch
        if before is not None and not same:
            take(line.process, before, False)
        if not one.is_first:
            take(line.process, one, same)
    for process, one in waiting.items():
        take(process, one, False)
    for rank, (step, step_s, loading_s) in zip(ranks_of(processes), found, strict=True):
        rows.add(rank, step, step_s, data_s=loading_s)
    return rows


class _Counter:
    """The number of an iteration since the job began, from its epoch and its number in it."""

    def __init__(self) -> None:
        self._before: Said | None = None
        self._since, self._apart = 0, 1

    def count(self, one: Said) -> int:
        """Return the number; an epoch whose length is not known ends one interval of lines after its last line."""
        before, self._before = self._before, one
        if one.epoch is None:
            return one.number
        if before is None or before.epoch is None:
            self._apart = max(one.number, 1)
        elif one.epoch == before.epoch and one.number > before.number:
            self._apart = one.number - before.number
        elif one.epoch > before.epoch:
            self._since += before.length or before.number + (self._apart if one.number < self._apart else 0)
        else:  # a job that starts again
            self._since = 0
        return self._since + one.number


def _parse(line: Line, source: str) -> Said | None:
    if (both := _match(line.text)) is None:
        return None
    (found, time), where = both, f"{source}: line {line.number}"
    loading = LOADING.search(line.text, found.end())
    if found.re is NUMBERED:
        return Said(None, whole(found[1], "iteration", where, MOST_STEP), None, where, time, loading)
    length = whole(found[3], "iterations", where, MOST_STEP) if found[3] else None
    epoch, number = (whole(each, "iteration", where, MOST_STEP) for each in found.groups()[:2])
    return Said(epoch, number, length, where, time, loading)


def _match(text: str) -> tuple[re.Match[str], re.Match[str]] | None:
    """The number of the iteration and its time, which follows; None: the line has no such pair."""
    if not any(word in text for word in TRAINS):
        return None
    number = NUMBERED.search(text) or OF_EPOCH.search(text)
    time = number and TIME.search(text, number.end())
    return (number, time) if number and time else None


def _seconds(found: re.Match[str], where: str, mean: bool) -> float:
    printed = found[3] if mean and found[3] else found[1]
    return positive(printed.rstrip("."), "time", where, MOST_SECONDS) * (MILLI if found[2] else 1.0)
