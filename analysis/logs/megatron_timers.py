"""Timers that Megatron-LM prints after an iteration: of all ranks, of the quickest and the slowest, or of one rank."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from analysis.logs.limits import LEAST_PRINTED_S, MILLI, MOST_SECONDS, MOST_STEP
from analysis.logs.lines import Line, positive, whole
from analysis.logs.step_log import OF_SLOWEST, Extremes

ALL_RANKS = re.compile(r"\btimes across ranks \(ms\):$")
TIMER = re.compile(r"(?:^|\s\s)([A-Za-z][\w-]*+):$")
RANK = re.compile(r"(?:^|\s\s)rank\s++(\d++):\s*+(\S++)$")
"""Both are indented, so any prefix ends before them."""
BETWEEN = re.compile(r"\(min, max\) time across ranks \(ms\):$")
LONGEST = re.compile(r"\bmax time across ranks \(ms\):$")
BOUND = re.compile(r"(?:^|\s\s)([A-Za-z][\w/-]*+) \.++: ([\d.]++)$")
BOUNDS = re.compile(r"(?:^|\s\s)([A-Za-z][\w/-]*+) \.*+: \(([^\s,]++), ([^\s)]++)\)$")
ONE_RANK = re.compile(r"(?:^|\s\s)time \(ms\) \|")
ONE = re.compile(r"\| ([A-Za-z][\w/ -]{0,80}): ([^\s|]++)")
REPORT = re.compile(r"\bMnRtt/Rnk: ")
REPORTED = re.compile(r"\b(Mn|Mx)(D?)Rtt/Rnk: ([\d.]++)ms/(\d++)")
"""Words that ``--log-straggler`` prints: round trips of the traced operations, and the time to get a batch (D)."""
TRACED, BATCH = "traced operations", "get_batch"


def is_report(line: Line) -> bool:
    """Whether a line is one of ``--log-straggler``."""
    return REPORT.search(line.text) is not None


@dataclass
class Timers:
    """Seconds of one iteration.

    Attributes:
        of_ranks: by timer and rank.
        bounds: by timer, of the quickest and the slowest rank.
        of_one: by timer, of the rank that printed, or of the slowest one.
        reported: of the quickest and the slowest rank with their names.
    """

    of_ranks: dict[str, dict[int, float]] = field(default_factory=dict)
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    of_one: dict[str, float] = field(default_factory=dict)
    reported: list[Extremes] = field(default_factory=list)
    _begun: str | None = None

    @property
    def names(self) -> set[str]:
        """Return the names of timers of which more than one rank is known."""
        return self.of_ranks.keys() | self.bounds.keys()

    def extremes(self, timer: str) -> tuple[Extremes, ...]:
        """Return the times of the quickest and the slowest rank, as far as they were printed."""
        some = [Extremes(timer, *self.bounds[timer])] if timer in self.bounds else []
        return (*some, *self.reported)

    def take(self, source: str, line: Line) -> None:
        """Add the content of a line, if it has timers.

        Raises:
            LogError: a number is none.
        """
        where = f"{source}: line {line.number}"
        if any(begin.search(line.text) for begin in (ALL_RANKS, BETWEEN, LONGEST)):
            self._begun = ""
        elif self._begun is not None and (longest := BOUND.search(line.text)):
            self.of_one[f"{longest[1]}{OF_SLOWEST}"] = _seconds(longest[2], longest[1], where)
        elif self._begun is not None and (bounds := BOUNDS.search(line.text)):
            self.bounds[bounds[1]] = (_seconds(bounds[2], bounds[1], where), _seconds(bounds[3], bounds[1], where))
        elif self._begun is not None and (named := TIMER.search(line.text)):
            self._begun = named[1]
        elif self._begun and (ranked := RANK.search(line.text)):
            seconds, rank = _seconds(ranked[2], self._begun, where), whole(ranked[1], "rank", where, MOST_STEP)
            if rank in self.of_ranks.setdefault(self._begun, {}):
                self._begun = ""  # the name of another timer is missing: not this one's
            else:
                self.of_ranks[self._begun][rank] = seconds
        elif ONE_RANK.search(line.text):
            self.of_one |= {name: _seconds(found, name, where) for name, found in ONE.findall(line.text)}
        elif is_report(line):
            self.reported += read_report(line, where)


def read_report(line: Line, where: str) -> list[Extremes]:
    """The quickest and the slowest rank of a line of ``--log-straggler``.

    Raises:
        LogError: with ``where``, a number is none.
    """
    found = {
        (batch, end): (_seconds(time, f"{end}{batch}Rtt", where), rank)
        for end, batch, time, rank in REPORTED.findall(line.text)
    }
    some = []
    for batch, what in (("", TRACED), ("D", BATCH)):
        if {(batch, "Mn"), (batch, "Mx")} <= found.keys():
            (least_s, quickest), (most_s, slowest) = found[batch, "Mn"], found[batch, "Mx"]
            some.append(Extremes(what, least_s, most_s, quickest, slowest))
    return some


def _seconds(found: str, what: str, where: str) -> float:
    return max(positive(found, what, where, MOST_SECONDS / MILLI) * MILLI, LEAST_PRINTED_S)
