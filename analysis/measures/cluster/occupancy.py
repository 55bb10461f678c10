"""Which jobs have tasks on a host, and when. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pandas as pd

from analysis.files import natural


class Occupancy:
    """Made of a cluster's ``spans``. A job is on a host from its start to its preemption or end."""

    def __init__(self, spans: pd.DataFrame) -> None:
        changes: dict[int, list[tuple[float, str, int]]] = defaultdict(list)
        for row in spans[spans["end_s"] > spans["start_s"]].itertuples():
            for host in {*row.workers, *row.servers}:
                servers = row.servers.count(host)
                changes[host] += [(row.start_s, row.job, servers), (row.end_s, row.job, -servers - 1)]
        self._hosts = {host: _pieces(found) for host, found in changes.items()}
        self._met: dict[tuple[int, int, int], frozenset[str]] = {}

    def between(self, host: int, start_s: float, end_s: float) -> frozenset[str]:
        """Names of all jobs that had a task on the host at some time of [start, end)."""
        if host not in self._hosts:
            return frozenset()
        t, present, _ = self._hosts[host]
        first = int(np.searchsorted(t, start_s, side="right")) - 1
        last = max(first + 1, int(np.searchsorted(t, end_s, side="left")))
        key = (host, first, last)
        if key not in self._met:
            self._met[key] = frozenset[str]().union(*present[first:last])
        return self._met[key]

    def servers_at(self, host: int, times: Iterable[float]) -> np.ndarray:
        """Number of parameter servers, of all jobs, on the host at each time."""
        seconds = np.asarray(list(times), dtype="float64")
        if host not in self._hosts:
            return np.zeros(len(seconds), dtype="int64")
        t, _, servers = self._hosts[host]
        return np.asarray(servers[np.searchsorted(t, seconds, side="right") - 1])


def _pieces(changes: list[tuple[float, str, int]]) -> tuple[np.ndarray, list[frozenset[str]], np.ndarray]:
    """Times of the changes, and from each of them on the jobs and the number of servers. Negative: it leaves."""
    t, present, servers = [-np.inf], [frozenset[str]()], [0]
    jobs: set[str] = set()
    number = 0
    for when, job, change in sorted(changes, key=lambda one: (one[0], one[2] >= 0)):  # departures first
        (jobs.add if change >= 0 else jobs.discard)(job)
        number += change if change >= 0 else change + 1
        if t[-1] == when:
            present[-1], servers[-1] = frozenset(jobs), number
        else:
            t.append(when)
            present.append(frozenset(jobs))
            servers.append(number)
    return np.array(t), present, np.array(servers, dtype="int64")


def names_text(jobs: Iterable[str]) -> str:
    """The names in natural order, with spaces between them."""
    return " ".join(sorted(jobs, key=natural))
