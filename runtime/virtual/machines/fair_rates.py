"""Max-min fair rates of activities that share links and cores (pure).

An activity uses all of its resources at one common rate: a flow fills the sender's uplink and the receiver's downlink
alike. No activity can get more without taking from one whose weighted share is no larger.

Source: Bertsekas and Gallager, *Data Networks*, 2nd ed., section 6.5.2 (max-min flow control, progressive filling).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from runtime.virtual.machines.quotas import Quota

UNSETTLED = -1.0


@dataclass(slots=True, eq=False)
class Resource:
    """Gives ``capacity`` a second to its users; ``given`` is what it gives while its quota, if any, is not used up."""

    number: int
    given: float
    quota: Quota | None = None
    capacity: float = field(init=False)
    users: dict[int, Activity] = field(default_factory=dict)
    """By number, and thus in the order of their starts."""
    end_s: float = inf
    """When the quota will be used up."""
    mark: int = 0
    """The last search that has found it."""
    left: float = 0.0
    weight: float = 0.0

    def __post_init__(self) -> None:
        self.capacity = self.given

    def renew(self, t: float) -> None:
        """Look whether anything of the quota is left."""
        if self.quota is not None:
            self.capacity = self.given if self.quota.open(t) else min(self.given, self.quota.cores)


@dataclass(slots=True, eq=False)
class Activity:
    """``left`` is the remaining work at ``since_s``; from then on it flows at ``rate`` and ends at ``end_s``."""

    key: Hashable
    number: int
    resources: tuple[Resource, ...]
    bounds: tuple[Resource, ...]
    """See :func:`bounds_of`."""
    limit: float
    weight: float
    left: float
    since_s: float
    rate: float = 0.0
    end_s: float = inf
    mark: int = 0
    """The last search that has found it."""
    fair: float = UNSETTLED
    most: float = inf

    def flow(self, t: float, rate: float) -> None:
        """Book the work done until ``t``, and continue at another rate."""
        left = self.left - self.rate * (t - self.since_s)
        self.left = left = left if left > 0.0 else 0.0
        self.since_s, self.rate = t, rate
        if left == 0.0:
            self.end_s = t
        else:
            self.end_s = t + left / rate if rate else inf


def bounds_of(resources: Iterable[Resource]) -> tuple[Resource, ...]:
    """Those that limit their users, or may when their quotas are used up."""
    return tuple([one for one in resources if one.capacity < inf or one.quota is not None])


def fair_rates(activities: Sequence[Activity], full: Iterable[Resource]) -> list[float]:
    """The weighted max-min fair rate of each of ``activities``, in their order.

    All levels (rate by weight) rise together. Whoever reaches its limit stops there; when a resource is full, all of
    its users stop. In plain Python, since there are rarely more than ten activities. Sums run in the order of the
    arguments: the same input gives the same bits on every platform.

    Args:
        activities: limits 0 or more, weights above 0.
        full: the finite ones of their resources; all their users are among ``activities``.

    Returns:
        Amounts per second; infinite for activities that nothing limits.
    """
    if len(activities) == 1:  # most computations have their cores to themselves
        return [min([activities[0].limit, *[resource.capacity for resource in full]])]
    filling = _begin(activities, full)
    limited = [(one.most / one.weight, one.number, one) for one in activities if one.most < inf]
    limited.sort(reverse=True)
    waiting = len(activities)
    while filling:
        level, lowest = _lowest(filling)
        settled = _stopped(limited, level) or _full(lowest, level)
        waiting -= len(settled)
        if not waiting:
            break
        filling = _rest(filling, settled)
    return [one.most if one.fair == UNSETTLED else one.fair for one in activities]


def _begin(activities: Sequence[Activity], full: Iterable[Resource]) -> list[Resource]:
    """Prepare all; returns the resources that several share. One user's alone is the same as a limit."""
    for activity in activities:
        activity.fair, activity.most = UNSETTLED, activity.limit
    shared = []
    for resource in full:
        users, capacity = resource.users, resource.capacity
        if len(users) > 1:
            resource.left = capacity
            resource.weight = sum([user.weight for user in users.values()])
            shared.append(resource)
        else:
            for user in users.values():
                if capacity < user.most:
                    user.most = capacity
    return shared


def _lowest(filling: Iterable[Resource]) -> tuple[float, list[Resource]]:
    """The level at which the next resources are full, and these."""
    level, lowest = inf, []
    for resource in filling:
        own = resource.left / resource.weight
        if own < level:
            level, lowest = own, [resource]
        elif own == level:
            lowest.append(resource)
    return level, lowest


def _stopped(limited: list[tuple[float, int, Activity]], level: float) -> list[Activity]:
    """Settle those that reach their limits up to this level; ``limited`` is sorted, the lowest last."""
    settled = []
    while limited and limited[-1][0] <= level:
        one = limited.pop()[2]
        if one.fair == UNSETTLED:
            one.fair = one.most
            settled.append(one)
    return settled


def _full(lowest: Iterable[Resource], level: float) -> list[Activity]:
    """Settle the users of full resources."""
    settled = []
    for resource in lowest:
        for user in resource.users.values():
            if user.fair == UNSETTLED:
                fair = level * user.weight
                user.fair = fair if fair < user.most else user.most
                settled.append(user)
    return settled


def _rest(filling: Iterable[Resource], settled: Iterable[Activity]) -> list[Resource]:
    """Take from resources what these get; returns the resources that others wait for.

    Weights are summed again, since differences of sums would round.
    """
    touched = set()
    for one in settled:
        for resource in one.bounds:
            resource.left -= one.fair
            touched.add(resource.number)
    for resource in filling:
        if resource.number in touched:
            resource.left = max(0.0, resource.left)
            resource.weight = sum([user.weight for user in resource.users.values() if user.fair == UNSETTLED])
    return [resource for resource in filling if resource.weight]
