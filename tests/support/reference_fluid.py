"""The reference of ``runtime/virtual/compiled/fluid.h``: the same by vectors, slowly, without quotas, and unchecked.

Max-min fair rates of activities that share links and cores.

An activity has an amount of work (bytes, core-seconds) and uses all of its resources at one common rate: a flow fills
the sender's uplink and the receiver's downlink alike. No activity can get more without taking from one whose weighted
share is no larger. Rates change only when an activity starts or ends or a capacity changes; in between, work flows
evenly, so the next completion is known in advance and no time steps are needed.

Source: Bertsekas and Gallager, *Data Networks*, 2nd ed., section 6.5.2 (max-min flow control, progressive filling).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

import msgspec
import numpy as np


class Demand(NamedTuple):
    """The demand of an activity: all of ``resources`` at once, at most ``limit`` a second, by ``weight``."""

    resources: tuple[str, ...]
    limit: float = inf
    weight: float = 1.0


def fair_rates(capacities: Mapping[str, float], demands: Sequence[Demand]) -> list[float]:
    """The weighted max-min fair rate of each of ``demands``, in their order.

    All levels (rate by weight) rise together. A demand that reaches its limit stops there; when a resource is full, all
    of its users stop. One round settles every demand whose end is certain: a limit below the levels at which its
    resources would fill up, or a resource that would fill up before any other resource or limit stops one of its users.
    This can only raise the levels of the others. So the number of rounds is the length of the longest chain of
    bottlenecks. Sums run in the order of ``demands``: the same input gives the same bits on every platform.

    """
    if len(demands) == 1:
        return [min(demands[0].limit, *(capacities[name] for name in demands[0].resources), inf)]
    numbers: dict[str, int] = {}
    pairs = [
        (k, numbers.setdefault(name, len(numbers)))
        for k, demand in enumerate(demands)
        for name in demand.resources
        if capacities[name] < inf
    ]
    who, where = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    left = np.array([capacities[name] for name in numbers], dtype=np.float64)
    limits = np.array([demand.limit for demand in demands], dtype=np.float64)
    weights = np.array([demand.weight for demand in demands], dtype=np.float64)
    limit_levels, rates = limits / weights, limits.copy()
    while who.size:
        sums = np.bincount(where, weights[who], minlength=len(left))
        levels = np.divide(left, sums, out=np.full_like(left, inf), where=sums > 0)
        ends = limit_levels.copy()  # the lowest level that may stop each activity
        np.minimum.at(ends, who, levels[where])
        lowest = levels.copy()  # the lowest level at which a user of each resource may stop
        np.minimum.at(lowest, where, ends[who])
        filled = who[levels[where] == lowest[where]]
        rates[filled] = np.minimum(limits[filled], weights[filled] * ends[filled])
        settled = ends == limit_levels
        settled[filled] = True
        out = settled[who]
        left -= np.bincount(where[out], rates[who[out]], minlength=len(left))
        np.maximum(left, 0.0, out=left)  # rounding
        who, where = who[~out], where[~out]
    fair: list[float] = rates.tolist()
    return fair


class _Activity(msgspec.Struct, eq=False):
    """``left`` is the remaining work at ``since_s``; from then on it flows at ``rate`` and ends at ``end_s``."""

    key: Hashable
    number: int
    demand: Demand
    left: float
    since_s: float
    rate: float = 0.0
    end_s: float = inf

    def settle(self, t: float) -> None:
        """Book the work done until ``t``."""
        self.left = max(0.0, self.left - self.rate * (t - self.since_s))
        self.since_s = t

    def flow(self, t: float, rate: float) -> None:
        """Continue at another rate. An unchanged rate changes nothing, not even by rounding."""
        if rate == self.rate:
            return
        self.settle(t)
        self.rate = rate
        if self.left == 0.0:
            self.end_s = t
        else:
            self.end_s = t + self.left / rate if rate else inf


class Fluid:
    """Rates are computed for the activities that share resources with a change, directly or not."""

    def __init__(self, capacities: Mapping[str, float]) -> None:
        self._capacities = dict(capacities)
        self._users: dict[str, dict[int, _Activity]] = {name: {} for name in capacities}
        self._running: dict[Hashable, _Activity] = {}
        self._ended: dict[Hashable, _Activity] = {}
        self._started = 0
        self._now_s = -inf
        self._first_s = inf  # rates of running activities, as last computed
        self._stale = False
        self._fresh: dict[int, _Activity] = {}
        self._changed: dict[str, None] = {}  # resources; in order, unlike a set of strings

    def add(self, capacities: Mapping[str, float]) -> None:
        for name, value in capacities.items():
            self._capacities[name] = value
            self._users[name] = {}

    def remove(self, resources: Iterable[str]) -> None:
        for name in resources:
            del self._users[name], self._capacities[name]
            self._changed.pop(name, None)

    def start(
        self,
        t: float,
        key: Hashable,
        amount: float,
        resources: tuple[str, ...],
        limit: float = inf,
        weight: float = 1.0,
    ) -> None:
        demand = Demand(resources, limit, weight)
        self._advance(t)
        activity = _Activity(key, self._started, demand, amount, t)
        self._started += 1
        if not amount:
            activity.end_s = t
            self._ended[key] = activity
            return
        self._running[key] = self._fresh[activity.number] = activity
        for name in demand.resources:
            self._users[name][activity.number] = activity
        self._stale = True

    def stop(self, t: float, key: Hashable) -> float:
        self._advance(t)
        if key in self._ended:
            del self._ended[key]
            return 0.0
        activity = self._running[key]
        activity.settle(t)
        self._remove(activity)
        return activity.left

    def left(self, t: float, key: Hashable) -> float:
        if key in self._ended:
            return 0.0
        activity = self._running[key]
        return max(0.0, activity.left - activity.rate * (t - activity.since_s))

    def set_capacity(self, t: float, resource: str, capacity: float) -> None:
        self._advance(t)
        if self._capacities[resource] == capacity:
            return
        self._capacities[resource] = capacity
        self._changed[resource] = None
        self._stale = True

    @property
    def next_s(self) -> float:
        self._compute()
        return min(self._first_s, min((activity.end_s for activity in self._ended.values()), default=inf))

    def completed(self, t: float) -> list[Hashable]:
        self._advance(t)
        self._end_until(t)
        ended = sorted(self._ended.values(), key=lambda activity: activity.number)
        self._ended.clear()
        return [activity.key for activity in ended]

    def rate(self, key: Hashable) -> float:
        if key in self._ended:
            return 0.0
        self._compute()
        return self._running[key].rate

    def used(self, resource: str) -> float:
        """The current amount per second through a resource."""
        self._compute()
        return sum(activity.rate for activity in self._users[resource].values())

    # ---- time ------------------------------------------------------------------------------------------------------

    def _advance(self, t: float) -> None:
        """Advance to ``t``. Changes at ``t`` itself are not computed yet: more may follow."""
        if t > self._now_s or not self._stale:
            self._end_until(t)
            self._now_s = t

    def _end_until(self, t: float) -> None:
        """End the activities that end until ``t``, in order, each giving its share to the others."""
        self._compute()
        while self._first_s <= t:
            self._now_s = self._first_s
            for activity in [some for some in self._running.values() if some.end_s <= self._now_s]:
                self._remove(activity)
                self._ended[activity.key] = activity
            self._compute()

    def _compute(self) -> None:
        """Compute new rates if anything has changed."""
        if not self._stale:
            return
        affected = self._affected()
        if affected:
            rates = fair_rates(self._capacities, [activity.demand for activity in affected])
            for activity, rate in zip(affected, rates, strict=True):
                activity.flow(self._now_s, rate)
        self._first_s = min((activity.end_s for activity in self._running.values()), default=inf)
        self._fresh, self._changed, self._stale = {}, {}, False

    # ---- connected activities --------------------------------------------------------------------------------------

    def _affected(self) -> list[_Activity]:
        """Activities whose rate may change: those connected with a change by a chain of shared resources."""
        found = dict(self._fresh)
        queue = list(self._changed)
        seen = set(queue)
        for activity in self._fresh.values():
            queue += self._beyond(activity, seen)
        for name in queue:  # which grows meanwhile
            for number, activity in self._users[name].items():
                if number not in found:
                    found[number] = activity
                    queue += self._beyond(activity, seen)
        return [found[number] for number in sorted(found)]

    def _beyond(self, activity: _Activity, seen: set[str]) -> list[str]:
        """An activity's resources not yet in ``seen``, to which they are added; infinite ones connect nothing."""
        names = [name for name in activity.demand.resources if name not in seen and self._capacities[name] < inf]
        seen.update(names)
        return names

    def _remove(self, activity: _Activity) -> None:
        del self._running[activity.key]
        self._fresh.pop(activity.number, None)
        for name in activity.demand.resources:
            del self._users[name][activity.number]
            if self._capacities[name] < inf:
                self._changed[name] = None
        self._stale = True
