"""The reference of ``runtime/virtual/compiled/fluid.h``: everything anew at every change, slowly, and unchecked.

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


class Demand(NamedTuple):
    """The demand of an activity: all of ``resources`` at once, at most ``limit`` a second, by ``weight``."""

    resources: tuple[str, ...]
    limit: float = inf
    weight: float = 1.0


def fair_rates(capacities: Mapping[str, float], demands: Sequence[Demand]) -> list[float]:
    """The weighted max-min fair rate of each of ``demands``, in their order.

    All levels (rate by weight) rise together. A demand that reaches its limit stops there; when a resource is full, all
    of its users stop.
    """
    rates, left = [inf] * len(demands), {name: value for name, value in capacities.items() if value < inf}
    rising = list(range(len(demands)))
    while rising:
        weights = dict.fromkeys(left, 0.0)
        for k in rising:
            for name in demands[k].resources:
                if name in left:
                    weights[name] += demands[k].weight
        full = {name: left[name] / weight for name, weight in weights.items() if weight}
        stops = {k: demands[k].limit / demands[k].weight for k in rising}
        stops = {
            k: min([stop, *(full[name] for name in demands[k].resources if name in full)]) for k, stop in stops.items()
        }
        lowest = min(stops.values())
        for k in [k for k in rising if stops[k] == lowest]:
            rising.remove(k)
            rates[k] = min(demands[k].limit, demands[k].weight * lowest)
            for name in demands[k].resources:
                if name in left:
                    left[name] = max(0.0, left[name] - rates[k])  # rounding
    return rates


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
    """Activities that flow at fair rates."""

    def __init__(self, capacities: Mapping[str, float]) -> None:
        self._capacities = dict(capacities)
        self._running: dict[Hashable, _Activity] = {}
        self._ended: dict[Hashable, _Activity] = {}
        self._started = 0
        self._now_s = -inf
        self._first_s = inf  # rates of running activities, as last computed
        self._stale = False

    def add(self, capacities: Mapping[str, float]) -> None:
        self._capacities |= capacities

    def remove(self, resources: Iterable[str]) -> None:
        for name in resources:
            del self._capacities[name]

    def start(
        self,
        t: float,
        key: Hashable,
        amount: float,
        resources: tuple[str, ...],
        limit: float = inf,
        weight: float = 1.0,
    ) -> None:
        self._advance(t)
        activity = _Activity(key, self._started, Demand(resources, limit, weight), amount, t)
        self._started += 1
        if not amount:
            activity.end_s = t
            self._ended[key] = activity
            return
        self._running[key] = activity
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
        self._stale |= self._capacities[resource] != capacity
        self._capacities[resource] = capacity

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
        return sum(one.rate for one in self._running.values() if resource in one.demand.resources)

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
        if not self._stale:
            return
        self._stale, running = False, list(self._running.values())
        for activity, rate in zip(running, fair_rates(self._capacities, [one.demand for one in running]), strict=True):
            activity.flow(self._now_s, rate)
        self._first_s = min((activity.end_s for activity in running), default=inf)

    def _remove(self, activity: _Activity) -> None:
        del self._running[activity.key]
        self._stale = True
