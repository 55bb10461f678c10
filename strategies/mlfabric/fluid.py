"""Input and output of planners, and when transfers end: under reservations, or all at once with fair shares (pure).

Data is a fluid: a transfer has a rate at any time, and a link carries at most its capacity. ``Reservations`` is
MLfabric's network: the first planned transfer takes the free rate of its path, and later ones have the rest ("reserve
the bandwidth of the bottleneck for as long as the transfer lasts"). ``fair_finishes`` is the network without a plan:
max-min fair shares among all that have begun, as TCP tends to.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Links = Mapping[str, float]
"""Name of a link -> bytes per second that it carries, in the direction of the transfers; positive."""
Segment = tuple[float, float, float]
"""(start_s, end_s, bytes_per_s): a time in which a transfer has this rate."""
Reason = Literal["missed", "idle"]
"""``missed``: no slot is early enough for its deadline; ``idle``: waiting for it would leave the server idle."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """A gradient that a worker holds and would send.

    Attributes:
        id: whatever the caller knows it by; ties are broken by it, the lowest first.
        worker: the one that holds it.
        version: updates that had been applied to the parameters on which it was computed.
        size_bytes: length of the message, 0 or more.
        ready_s: when the worker announced it.
        path: links from the worker to the server, in any order; none: it is there at once.
    """

    id: int
    worker: int
    version: int
    size_bytes: float
    ready_s: float
    path: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A place in the order: an update's transfer, and when and at which version it is applied.

    Attributes:
        update: the update that is sent.
        start_s: when its first byte leaves; earlier transfers on its links may not have ended if they leave room.
        finish_s: when its last byte has arrived.
        commit_s: when it is applied: no earlier than its predecessors in the order.
        version: updates applied before this one.
        segments: the rates that are reserved for it on each link of its path; gaps between them are pauses.
    """

    update: Update
    start_s: float
    finish_s: float
    commit_s: float
    version: int
    segments: tuple[Segment, ...] = ()

    @property
    def delay(self) -> int:
        """Updates applied between reading the parameters and applying this one (its staleness)."""
        return self.version - self.update.version


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """An update that is not sent, and why."""

    update: Update
    reason: Reason


def deadline(update: Update, tau_max: float, version: int) -> float:
    """The last slot, counted from 0, in which the delay of ``update`` is at most ``tau_max``.

    Slot i is applied at ``version + i``, so that the delay there is ``version + i - update.version``.
    """
    return update.version + tau_max - version


def solo_s(update: Update, links: Links) -> float:
    """Duration of the transfer if it has its path for itself."""
    rate = min((links[name] for name in update.path), default=math.inf)
    return update.size_bytes / rate


def check(updates: tuple[Update, ...], links: Links) -> None:
    """Raise ``ValueError`` in one line if these updates cannot be planned on these links."""
    for name, rate in links.items():
        if not 0 < rate < math.inf:
            raise ValueError(f"link {name}: {rate} bytes/s, must be positive and finite")
    if len({update.id for update in updates}) < len(updates):
        raise ValueError("two pending updates have the same id")
    for update in updates:
        unknown = [name for name in update.path if name not in links]
        if unknown:
            raise ValueError(f"update {update.id}: its path has {unknown[0]}, which is not a known link")
        if not 0 <= update.size_bytes < math.inf:
            raise ValueError(f"update {update.id}: size_bytes={update.size_bytes}, must be 0 or more")


NOTHING = 1e-9
"""Part of a link's capacity below which nothing is left of it: the rounding of sums."""


class Reservations:
    """The capacity that each link has left, at any time.

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
        """Take these rates from every link of ``path``; the remaining rates are at least 0."""
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
