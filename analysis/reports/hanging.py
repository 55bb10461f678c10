"""The results for dumps of PyTorch's flight recorder: which ranks the others wait for, and where to look (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.logs.flight_recorder import Dump
from analysis.measures.hanging import Culprit, Kind

MOST_NAMED = 20
"""So many ranks have a line each, those that most ranks wait for first."""
WHERE: dict[Kind, str] = {
    "absent": "is not among the dumps, and is waited for in {what}: name its dump; if it left none, look at it first",
    "late": "has not joined {what} and waits for nothing itself: look at its process (a lock, loading, a crash)",
    "stuck": "has begun {what}, which other ranks completed: look at its device and at the errors of its driver",
    "together": "has begun {what} as all of its group have, and no rank completed it: look at the group's network",
    "circle": "waits in {what} for ranks that wait for it: look at the order of messages and the links between them",
}
NO_TIMES = (
    "dumps of the flight recorder have the waits of one moment and no times of steps: nothing is ranked; of a job that "
    "did not hang they only show which rank was last just then"
)
NOBODY = "no rank waits in a collective: these dumps show no hang"


def hanging_lines(dumps: Mapping[int, Dump], culprits: Sequence[Culprit]) -> list[str]:
    """Say which ranks hold up the others, the one that most ranks wait for first."""
    waiting = sum(bool(dump.waiting) for dump in dumps.values())
    lines = [f"{len(dumps)} dumps of the flight recorder; {waiting} ranks wait"]
    ordered = sorted(culprits, key=lambda one: (-len(one.waiting), one.rank))
    lines += [_line(one) for one in ordered[:MOST_NAMED]] or [NOBODY]
    if len(ordered) > MOST_NAMED:
        lines.append(f"and {len(ordered) - MOST_NAMED} more")
    return [*lines, NO_TIMES]


def _line(one: Culprit) -> str:
    what = f"{one.operation.name} {one.operation.number} of {one.group.what}"
    for_it = f"; {len(one.waiting)} ranks wait for it, directly or not" if one.waiting else ""
    return f"rank {one.rank} {WHERE[one.kind].format(what=what)}{for_it}"
