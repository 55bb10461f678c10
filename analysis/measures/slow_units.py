"""Which ranks are slow together: a host, neighbours, ranks at the same place of every group, or single ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from analysis.measures.phases import period_of, runs
from analysis.measures.slow_steps import PERSISTENT_FRAC, Bools

Form = Literal["host", "ranks", "rank"]
Kind = Literal["persistent", "periodic", "once", "transient"]

TOGETHER = 0.7
"""Ranks are slow together if so many of the steps in which one of two is slow are steps of both."""
WHOLE_FRAC = 0.75
"""A host is slow if so many of its ranks are slow together."""
FEWEST_NEIGHBOURS = 4
"""So many neighbouring ranks that are slow together are one group; fewer may be neighbours by chance."""
FEWEST_OF_STRIDE = 3
FEWEST_IN_ROW, MOST_NAMES = 3, 4
"""So many hosts that follow each other are named by the first and last; of others so many are named."""
GAP = 2
"""Slow steps with so few others between them are one event."""
RANK_OF_HOST = re.compile(
    r"(.*?)[\s:/_.,-]*(?:(?:local)?[\s_-]*(?:rank|gpu|device|worker|proc|slot|cuda|r|g))?[\s:/_.,-]*\d+", re.IGNORECASE
)


class Group(NamedTuple):
    """Ranks that are slow together: their form, a name for people, and their positions."""

    form: Form
    name: str
    members: tuple[int, ...]


class Course(NamedTuple):
    """When a group was slow; positions of steps.

    ``since``: of a persistent one, the first; else of its first event. ``until``: the first step after its last event.
    ``period``: steps from one event to the next, of a periodic one. ``events``: their number.
    """

    kind: Kind
    since: int
    until: int
    period: int | None
    events: int


def hosts_of(ranks: Sequence[str], hosts: Sequence[str], ranks_per_host: int | None) -> tuple[str, ...]:
    """The host of every rank: as logged, else as the names of ranks say, else by number; empty: unknown.

    Args:
        ranks: names, in natural order.
        hosts: as logged, or empty.
        ranks_per_host: so many ranks follow each other on every host; None: unknown.
    """
    if len(set(hosts)) > 1:
        return tuple(hosts)
    found = [match[1] if (match := RANK_OF_HOST.fullmatch(name)) else "" for name in ranks]
    if "" not in found and 1 < len(set(found)) < len(ranks):
        return tuple(found)
    return tuple(str(place // ranks_per_host) for place in range(len(ranks))) if ranks_per_host else ()


def groups(slow: Bools, candidates: Sequence[int], ranks: Sequence[str], hosts: Sequence[str]) -> list[Group]:
    """The fewest groups of ranks that are slow together.

    Args:
        slow: [steps, ranks].
        candidates: positions of the ranks that are slow at all.
        ranks: names of all ranks.
        hosts: names of their hosts, or empty.
    """
    chosen = np.asarray(candidates, dtype=np.int64)
    if not len(chosen):
        return []
    masks = slow[:, chosen].astype(np.float32)
    both = masks.T @ masks
    either = np.diag(both)[:, None] + np.diag(both)[None] - both
    _, labels = connected_components(both >= TOGETHER * either, directed=False)
    found = list[Group]()
    for label in range(int(labels.max()) + 1):
        members = chosen[labels == label].tolist()
        found += _of_hosts(members, ranks, hosts) if hosts else _of_numbers(members, ranks)
    return found


def course(slow: Bools) -> Course:
    """When a group was slow: [steps], with at least one that is."""
    events, steps = runs(slow, GAP), len(slow)
    total = sum(end - start for start, end in events)
    start, end = events[-1]
    long = end - start >= max(5, 0.01 * steps)
    if end >= steps - GAP and long and end - start >= PERSISTENT_FRAC * total:
        return Course("persistent", start if start > GAP else 0, steps, None, len(events))
    if total >= PERSISTENT_FRAC * steps:
        return Course("persistent", events[0][0] if events[0][0] > GAP else 0, end, None, len(events))
    period = period_of([begin for begin, _ in events])
    kind: Kind = "once" if len(events) == 1 else "periodic" if period else "transient"
    return Course(kind, events[0][0], end, period, len(events))


def _of_hosts(members: list[int], ranks: Sequence[str], hosts: Sequence[str]) -> Iterator[Group]:
    """The hosts that have most of their ranks among these, as one group; other ranks by themselves."""
    of_host: dict[str, list[int]] = {}
    for place, host in enumerate(hosts):
        of_host.setdefault(host, []).append(place)
    left = dict.fromkeys(members)
    whole = dict[str, list[int]]()
    for host in dict.fromkeys(hosts[place] for place in members):
        mine = [place for place in of_host[host] if place in left]
        if len(mine) > 1 and len(mine) >= WHOLE_FRAC * len(of_host[host]):
            whole[host] = mine
    if whole:
        chosen = [place for mine in whole.values() for place in mine]
        of_all = sum(len(of_host[host]) for host in whole)
        count = f"all {of_all}" if len(chosen) == of_all else f"{len(chosen)} of {of_all}"
        yield Group("host", f"{_hosts_name(list(whole), list(of_host))} ({count} ranks)", tuple(sorted(chosen)))
        left = {place: None for place in left if place not in set(chosen)}
    for group in _of_numbers(list(left), ranks):
        if group.form == "rank" and len({*hosts}) == len(hosts):
            yield Group("host", f"host {hosts[group.members[0]]} (rank {ranks[group.members[0]]})", group.members)
        else:
            yield group


def _hosts_name(chosen: list[str], hosts: list[str]) -> str:
    """Group hosts that are slow together, since one would hide another's cost."""
    if len(chosen) == 1:
        return f"host {chosen[0]}"
    first = hosts.index(chosen[0])
    if len(chosen) >= FEWEST_IN_ROW and chosen == hosts[first : first + len(chosen)]:
        return f"hosts {chosen[0]} to {chosen[-1]}"
    more = f" and {len(chosen) - MOST_NAMES} more" if len(chosen) > MOST_NAMES else ""
    return f"hosts {', '.join(chosen[:MOST_NAMES])}{more}"


def _of_numbers(members: list[int], ranks: Sequence[str]) -> Iterator[Group]:
    """Ranks at the same place of every group of as many, neighbours, or single ranks."""
    apart = set(np.diff(members).tolist())
    stride = apart.pop() if len(apart) == 1 and len(members) >= FEWEST_OF_STRIDE else 1
    if stride > 1 and members == list(range(members[0] % stride, len(ranks), stride)):
        names = ", ".join(ranks[place] for place in members[:3])
        yield Group("ranks", f"ranks {names} ... (one in {stride}, {len(members)} in all)", tuple(members))
        return
    inside = np.zeros(len(ranks), bool)
    inside[members] = True
    for start, end in runs(inside):
        if FEWEST_NEIGHBOURS <= end - start < len(ranks):
            yield Group("ranks", f"ranks {ranks[start]} to {ranks[end - 1]}", tuple(range(start, end)))
        else:
            yield from (Group("rank", f"rank {ranks[place]}", (place,)) for place in range(start, end))
