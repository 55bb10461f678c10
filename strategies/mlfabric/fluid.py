"""When transfers end: under reservations, one after another, or all at once with fair shares (pure).

Data is a fluid: a transfer has a rate at any time, and a link carries at most its capacity. ``Reservations`` is
MLfabric's network: who is planned first takes what its path has left, and who comes later has the rest ("reserve the
bandwidth of the bottleneck for as long as the transfer lasts"). ``fair_finishes`` is the network without a plan:
max-min fair shares among all that have begun, as TCP tends to.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Sequence

from strategies.mlfabric.updates import Links, Segment, Update

NOTHING = 1e-9
"""Part of a link's capacity below which nothing is left of it: the rounding of sums."""


class Reservations:
    """What is left of each link, at any time.

    A link's remainder is a step function: from ``_times[k]`` on there are ``_rates[k]`` bytes/s.
    """

    def __init__(self, links: Links, now_s: float) -> None:
        """All of ``links`` from ``now_s`` on; nothing can be sent before."""
        self._least = {name: rate * NOTHING for name, rate in links.items()}
        self._times = {name: [now_s] for name in links}
        self._rates = {name: [rate] for name, rate in links.items()}

    def open_s(self, path: Sequence[str], from_s: float) -> float:
        """A time of ``from_s`` or later before which nothing can be sent over ``path``: a bound, cheap to ask for."""
        for name in path:
            times, rates = self._times[name], self._rates[name]
            k = bisect_right(times, from_s) - 1
            if rates[k] == 0:
                from_s = times[k + 1]
        return from_s

    def copy(self) -> Reservations:
        """Another one, to try things on."""
        other = Reservations({}, 0.0)
        other._least = self._least
        other._times = {name: times.copy() for name, times in self._times.items()}
        other._rates = {name: rates.copy() for name, rates in self._rates.items()}
        return other

    def segments(self, path: Sequence[str], size_bytes: float, from_s: float) -> tuple[Segment, ...]:
        """A transfer from ``from_s`` on (no earlier than the network's begin), at any time as fast as its path allows.

        Nothing is reserved by that. Without bytes, or without a path, it takes no time.
        """
        now, left = from_s, size_bytes
        if left == 0 or not path:
            return ((now, now, math.inf),)
        steady, walks = self._walks(path, now)
        found: list[Segment] = []
        while True:
            rate, end = steady, math.inf
            for times, rates, k in walks:
                if rates[k] < rate:
                    rate = rates[k]
                if k + 1 < len(times) and times[k + 1] < end:
                    end = times[k + 1]
            if rate > 0:
                last = now + left / rate
                if last <= end:
                    found.append((now, last, rate))
                    return tuple(found)
                found.append((now, end, rate))
                left -= (end - now) * rate
            now = end
            walks = [(times, rates, k + (k + 1 < len(times) and times[k + 1] <= now)) for times, rates, k in walks]

    def _walks(self, path: Sequence[str], now: float) -> tuple[float, list[tuple[list[float], list[float], int]]]:
        """The least of the links on which nothing is reserved, and the steps of the others with the present one."""
        steady, walks = math.inf, []
        for name in path:
            times, rates = self._times[name], self._rates[name]
            if len(times) > 1:
                walks.append((times, rates, bisect_right(times, now) - 1))
            elif rates[0] < steady:
                steady = rates[0]
        return steady, walks

    def reserve(self, path: Sequence[str], segments: Sequence[Segment]) -> None:
        """Take these rates from every link of ``path``; what they leave is at least 0."""
        for name in path:
            times = self._times[name]
            for start, end, rate in segments:
                if end > max(start, times[0]):
                    self._take(name, max(start, times[0]), end, rate)

    def _take(self, name: str, start: float, end: float, rate: float) -> None:
        times, rates = self._times[name], self._rates[name]
        for at in (start, end):
            k = bisect_right(times, at) - 1
            if times[k] != at:
                insort(times, at)
                rates.insert(k + 1, rates[k])
        for k in range(bisect_right(times, start) - 1, bisect_right(times, end) - 1):
            left = rates[k] - rate
            rates[k] = left if left > self._least[name] else 0.0
        for k in range(bisect_right(times, end) - 1, max(bisect_right(times, start) - 2, 0), -1):
            if rates[k] == rates[k - 1]:
                del times[k], rates[k]


def fair_finishes(updates: Sequence[Update], links: Links) -> list[float]:
    """When each of ``updates`` has arrived if all are sent as soon as they are ready, with max-min fair rates."""
    left = [update.size_bytes for update in updates]
    finishes = [update.ready_s for update in updates]
    waiting = {k for k, update in enumerate(updates) if left[k] > 0 and update.path}
    now = min((update.ready_s for update in updates), default=0.0)
    while waiting:
        active = [k for k in waiting if updates[k].ready_s <= now]
        begins = min((updates[k].ready_s for k in waiting if updates[k].ready_s > now), default=math.inf)
        rates = fair_rates([updates[k].path for k in active], links)
        ends = [now + left[k] / rate for k, rate in zip(active, rates, strict=True)]
        until = min([begins, *ends])
        for k, rate, end in zip(active, rates, ends, strict=True):
            left[k] -= (until - now) * rate
            if end <= until:
                finishes[k] = end
                waiting.remove(k)
        now = until
    return finishes


def fair_rates(paths: Sequence[tuple[str, ...]], links: Links) -> list[float]:
    """Max-min fair rates of flows over ``paths``, none of which is empty: fill all evenly until a link is full."""
    rates = [0.0] * len(paths)
    rest, flows = dict(links), set(range(len(paths)))
    while flows:
        users = {name: [k for k in flows if name in paths[k]] for name in rest}
        full = min((name for name in rest if users[name]), key=lambda name: (rest[name] / len(users[name]), name))
        share = rest[full] / len(users[full])
        for k in users[full]:
            rates[k] = share
            for name in paths[k]:
                rest[name] = max(0.0, rest[name] - share)
        flows -= set(users[full])
        del rest[full]
    return rates
