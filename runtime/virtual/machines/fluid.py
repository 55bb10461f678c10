"""Shared resources on the virtual clock: work flows at fair rates, which change only when something happens (pure).

An activity has an amount of work (bytes, core-seconds). Rates change only when an activity starts or ends, a capacity
changes or a quota is used up; in between, work flows evenly, so the next completion is known in advance and no time
steps are needed. A change is felt only by activities that share resources with it, directly or not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from math import inf, nan
from operator import attrgetter

from runtime.virtual.machines.fair_rates import Activity, Resource, bounds_of, fair_rates
from runtime.virtual.machines.quotas import Quota

_number = attrgetter("number")
MANY = 64
"""Outdated entries of the heap that are not worth being removed."""


class Fluid:
    """Activities that share resources max-min fairly, on a clock that callers advance by their ``t``.

    ``t`` is finite and never decreases. Calls may skip completions: an activity that ended in between freed its share
    at that time and is kept for :meth:`completed`. Rates are computed lazily, so any number of changes at one time cost
    one computation.

    Args:
        capacities: amount per second of every resource, 0 or more, may be infinite.

    Raises:
        ValueError: for a negative capacity.
    """

    def __init__(self, capacities: Mapping[str, float]) -> None:
        self._resources: dict[str, Resource] = {}
        self._sets: dict[tuple[str, ...], tuple[tuple[Resource, ...], tuple[Resource, ...]]] = {}
        """Resources that were used together, and those of them that are :func:`bounds_of` their users."""
        self._running: dict[Hashable, Activity] = {}
        self._ended: dict[Hashable, tuple[float, int]] = {}
        """When each ended, and its number."""
        self._ends: list[tuple[float, int, Activity | Resource]] = []
        """A heap, in which an entry that is not what it names thinks of its end any more is outdated."""
        self._numbered = self._searches = 0
        self._now_s = -inf
        self._stale = False
        self._fresh: dict[int, Activity] = {}
        """Activities whose rates may be others, apart from those that share something with them."""
        self._changed: list[Resource] = []
        """Resources whose use has changed."""
        self.add(capacities)

    def add(self, capacities: Mapping[str, float]) -> None:
        """More resources, which nobody uses yet; a known name begins again with the new capacity."""
        for name, value in capacities.items():
            if name in self._resources:
                self._resources[name].end_s = inf
            self._resources[name] = Resource(self._next_number(), _check(name, value))
        self._sets.clear()

    def remove(self, resources: Iterable[str]) -> None:
        """Forget resources that nobody uses any more."""
        for name in resources:
            if self._find_resource(name).users:
                raise ValueError(f"resource={name!r}: is in use")
            self._resources.pop(name).end_s = inf
        self._sets.clear()

    def start(
        self,
        t: float,
        key: Hashable,
        amount: float,
        resources: tuple[str, ...],
        limit: float = inf,
        weight: float = 1.0,
    ) -> None:
        """Begin ``amount`` of work that uses all of ``resources`` at one common rate.

        Args:
            t: now, in seconds.
            key: names the activity until it is stopped or reported as complete.
            amount: 0 or more, finite; 0 is complete at once.
            resources: none of them twice; with none and no ``limit``, it is complete at once.
            limit: never more than this per second; 0 or more.
            weight: of its share; above 0.

        Raises:
            ValueError: for an unknown resource, a key in use, a value out of range, or a time that decreases.
        """
        if key in self._running or key in self._ended:
            raise ValueError(f"key={key!r}: is in use; keys are free again once complete or stopped")
        if not 0 <= amount < inf:
            raise ValueError(f"amount={amount}: must be finite and 0 or more")
        if not 0 < weight < inf:
            raise ValueError(f"weight={weight}: must be finite and more than 0")
        uses, bounds = self._sets.get(resources) or self._find_set(resources)
        limit = _check("limit", limit)
        self._advance(t)
        number = self._next_number()
        if not amount:
            self._ended[key] = t, number
            return
        activity = Activity(key, number, uses, bounds, limit, weight, float(amount), t)
        self._running[key] = self._fresh[number] = activity
        for resource in uses:
            resource.users[number] = activity
        self._stale = True

    def stop(self, t: float, key: Hashable) -> float:
        """Abandon an activity; returns how much of its amount was left.

        Raises:
            ValueError: for an unknown key or a time that decreases.
        """
        self._advance(t)
        if key in self._ended:
            del self._ended[key]
            return 0.0
        activity = self._find(key)
        left = self.left(t, key)
        self._remove(activity)
        return left

    def left(self, t: float, key: Hashable) -> float:
        """How much of an activity's amount is left at ``t``, at its rate as computed last; changes nothing."""
        if key in self._ended:
            return 0.0
        activity = self._find(key)
        return max(0.0, activity.left - activity.rate * (t - activity.since_s))

    def set_capacity(self, t: float, resource: str, capacity: float) -> None:
        """From ``t`` on, ``resource`` gives ``capacity`` per second (0 or more).

        Raises:
            ValueError: for an unknown resource, a negative capacity or a time that decreases.
        """
        found = self._find_resource(resource)
        _check("capacity", capacity)
        self._advance(t)
        if found.given == capacity:
            return
        found.given = float(capacity)
        self._disturb(found)

    def set_quota(self, t: float, resource: str, quota: Quota | None) -> None:
        """From ``t`` on, a resource's average use is limited, too; at every moment it is limited by its capacity."""
        found = self._find_resource(resource)
        self._advance(t)
        found.quota, found.end_s = quota, inf
        self._disturb(found)

    @property
    def next_s(self) -> float:
        """When the next activity completes or the next quota is used up; infinite if none will.

        It is in the past if a completion was not collected.
        """
        self._compute()
        first_s = self._first_s()
        return min(first_s, *[end_s for end_s, _ in self._ended.values()]) if self._ended else first_s

    def completed(self, t: float) -> list[Hashable]:
        """Remove the activities that are complete at ``t``; return their keys in the order of their starts.

        The computed end counts, not the rounded rest: what is complete at :attr:`next_s` is complete at exactly
        that time. What ends at ``t`` only because something else did is left to another call: :attr:`next_s` is
        ``t`` then.

        Raises:
            ValueError: for a time that decreases.
        """
        self._advance(t)
        ended, self._ended = self._ended, {}
        return sorted(ended, key=lambda key: ended[key][1]) if len(ended) > 1 else list(ended)

    def rate(self, key: Hashable) -> float:
        """An activity's current amount per second: 0 if it has ended.

        Raises:
            ValueError: for an unknown key.
        """
        if key in self._ended:
            return 0.0
        self._compute()
        return self._find(key).rate

    # ---- time ------------------------------------------------------------------------------------------------------

    def _advance(self, t: float) -> None:
        """Advance to ``t``. Changes at ``t`` itself are not computed yet: more may follow."""
        if not self._now_s <= t < inf:
            raise ValueError(f"t={t}: must be finite and not before {self._now_s}")
        if t > self._now_s or not self._stale:
            self._end_until(t)
            self._now_s = t

    def _end_until(self, t: float) -> None:
        """End what ends until ``t``, in order; each activity gives its share to the others."""
        self._compute()
        ends = self._ends
        while ends and ends[0][0] <= t:
            end_s, _, one = ends[0]
            if end_s == one.end_s:
                self._now_s = end_s
                self._end(one)
            heappop(ends)
            if self._stale and self._now_s < t and not (ends and ends[0][0] == self._now_s):
                self._compute()

    def _first_s(self) -> float:
        """When the next end is; infinite if there is none."""
        ends = self._ends
        while ends and ends[0][0] != ends[0][2].end_s:
            heappop(ends)
        return ends[0][0] if ends else inf

    def _end(self, one: Activity | Resource) -> None:
        """An activity is complete, or a quota used up."""
        if isinstance(one, Activity):
            self._ended[one.key] = one.end_s, one.number
            self._remove(one)
        else:
            one.end_s = inf
            self._fresh |= one.users
            self._stale = True

    def _compute(self) -> None:
        """Compute new rates if anything has changed. An unchanged rate changes nothing, not even by rounding."""
        if not self._stale:
            return
        self._stale = False
        activities, full, quotas = self._affected()
        now_s, ends = self._now_s, self._ends
        rates = fair_rates(activities, full) if activities else []
        for activity, rate in zip(activities, rates, strict=True):
            if rate != activity.rate:
                activity.flow(now_s, rate)
                if activity.end_s < inf:
                    heappush(ends, (activity.end_s, activity.number, activity))
        for resource, quota in quotas:
            end_s = quota.use(sum([user.rate for user in resource.users.values()]))
            if end_s != resource.end_s:
                resource.end_s = end_s
                if end_s < inf:
                    heappush(ends, (end_s, resource.number, resource))
        if len(ends) > 2 * len(self._running) + MANY:
            ends[:] = [entry for entry in ends if entry[0] == entry[2].end_s]
            heapify(ends)

    # ---- connected activities --------------------------------------------------------------------------------------

    def _affected(self) -> tuple[list[Activity], list[Resource], list[tuple[Resource, Quota]]]:
        """Activities connected with a change by a chain of resources, the finite ones of these, and those with quotas.

        In the order of their numbers, whatever the order of the changes.
        """
        self._searches = search = self._searches + 1
        found = list(self._fresh.values())
        full: list[Resource] = []
        quotas: list[tuple[Resource, Quota]] = []
        for activity in found:
            activity.mark = search
        for resource in self._changed:
            if resource.mark != search:
                self._reach(resource, found, full, quotas)
        for activity in found:  # which grows meanwhile
            for resource in activity.bounds:
                if resource.mark != search:
                    self._reach(resource, found, full, quotas)
        self._fresh, self._changed = {}, []
        if len(found) > 1:
            found.sort(key=_number)
            full.sort(key=_number)
        return found, full, quotas

    def _reach(
        self,
        resource: Resource,
        found: list[Activity],
        full: list[Resource],
        quotas: list[tuple[Resource, Quota]],
    ) -> None:
        """Add a resource, and its users if it connects them: if it is finite, or was until its quota had been saved."""
        resource.mark = search = self._searches
        connects = resource.capacity < inf
        if resource.quota is not None:
            quotas.append((resource, resource.quota))
            resource.renew(self._now_s)
        if resource.capacity < inf:
            if resource.users:
                full.append(resource)
        elif not connects:
            return
        for user in resource.users.values():
            if user.mark != search:
                user.mark = search
                found.append(user)

    def _disturb(self, resource: Resource) -> None:
        """A resource gives more or less than before."""
        if resource.quota is None:
            resource.capacity = resource.given
        for user in resource.users.values():
            user.bounds = bounds_of(user.resources)
        self._sets.clear()
        self._fresh |= resource.users
        self._changed.append(resource)
        self._stale = True

    def _remove(self, activity: Activity) -> None:
        del self._running[activity.key]
        self._fresh.pop(activity.number, None)
        activity.end_s = nan
        for resource in activity.resources:
            del resource.users[activity.number]
        self._changed += activity.bounds
        self._stale = True

    def _next_number(self) -> int:
        self._numbered += 1
        return self._numbered

    def _find(self, key: Hashable) -> Activity:
        if key not in self._running:
            raise ValueError(f"key={key!r}: no activity with this key is running")
        return self._running[key]

    def _find_set(self, names: tuple[str, ...]) -> tuple[tuple[Resource, ...], tuple[Resource, ...]]:
        if len(set(names)) < len(names):
            raise ValueError(f"resources={names}: contains one twice")
        resources = tuple([self._find_resource(name) for name in names])
        found = self._sets[names] = resources, bounds_of(resources)
        return found

    def _find_resource(self, name: str) -> Resource:
        if name not in self._resources:
            raise ValueError(f"resource={name!r}: is unknown; add it first")
        return self._resources[name]


def _check(name: str, value: float) -> float:
    if not value >= 0:
        raise ValueError(f"{name}={value}: must be 0 or more")
    return float(value)
