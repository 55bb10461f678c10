"""The reference of ``runtime/virtual/compiled/sharing.h``: it looks at every quota whenever anything changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import final

from runtime.virtual.clock import MACHINE, NETWORK, Clock
from runtime.virtual.machines.quotas import Quota
from tests.support.reference_fluid import Fluid
from tests.support.reference_quotas import Bucket

Then = Callable[[], object]


@final
class Sharing:
    """A :class:`Fluid` that follows a clock; ``capacities`` are those of its resources.

    A resource may have a quota, a limit on its average over time; its capacity limits the rate at every moment.
    """

    def __init__(self, clock: Clock, capacities: Mapping[str, float]) -> None:
        self.clock = clock
        self._fluid = Fluid(capacities)
        self._capacities = dict(capacities)
        self._quotas: dict[str, Bucket] = {}
        self._then: dict[Hashable, Then] = {}
        self._open: dict[Hashable, tuple[float, tuple[str, ...]]] = {}
        self._uses: dict[Hashable, tuple[tuple[str, ...], float]] = {}
        self._done: dict[str, float] = {}
        self._settling = False
        self._due_s = math.inf

    def add(self, capacities: Mapping[str, float]) -> None:
        self._capacities |= capacities
        self._fluid.add(capacities)

    def remove(self, resources: Collection[str]) -> None:
        """Resources that nobody uses any more, with their quotas."""
        self._fluid.remove(resources)
        for name in resources:
            del self._capacities[name]
            self._quotas.pop(name, None)

    def start(
        self,
        key: Hashable,
        amount: float,
        resources: tuple[str, ...],
        then: Then,
        accounts: tuple[str, ...] = (),
        *,
        limit: float = math.inf,
    ) -> None:
        """Begin an activity now, at no more than ``limit``; ``then()`` is called at the end.

        What is done of it is booked on ``accounts``.
        """
        self._then[key] = then
        self._uses[key] = resources, limit
        if accounts:
            self._open[key] = (amount, accounts)
        self._fluid.start(self.clock.now, key, amount, resources, limit)
        self._settle_soon()

    def stop(self, key: Hashable) -> None:
        if self._then.pop(key, None) is not None:
            self._book(key, self._fluid.stop(self.clock.now, key))
            self._settle_soon()

    def left(self, key: Hashable) -> float:
        """How much of an activity's amount is left now: 0 if it is not in progress."""
        return self._fluid.left(self.clock.now, key) if key in self._then else 0.0

    def divide(self, account: str, weight: float) -> None:
        """All activities of an account begin again, with what is left of them and equal parts of a weight."""
        own = [key for key, (_, accounts) in self._open.items() if account in accounts]
        for key in own:
            left = self._fluid.stop(self.clock.now, key)
            self._fluid.start(self.clock.now, key, left, *self._uses[key], weight / len(own))
            self._settle_soon()

    def done(self, account: str) -> float:
        """The sum of all that was booked, with what is done by now of activities in progress."""
        now = self.clock.now
        under_way = [(key, amount) for key, (amount, accounts) in self._open.items() if account in accounts]
        return self._done.get(account, 0.0) + sum(amount - self._fluid.left(now, key) for key, amount in under_way)

    def _book(self, key: Hashable, left: float) -> None:
        amount, accounts = self._open.pop(key, (0.0, ()))
        for account in accounts:
            self._done[account] = self._done.get(account, 0.0) + amount - left

    def set_capacity(self, resource: str, capacity: float) -> None:
        if self._capacities[resource] != capacity:
            self._capacities[resource] = capacity
            self._fluid.set_capacity(self.clock.now, resource, capacity)
            self._settle_soon()

    def set_quota(self, resource: str, quota: Quota | None) -> None:
        if quota is not None:
            self._quotas[resource] = Bucket(quota, self.clock.now)
        elif self._quotas.pop(resource, None) is not None:
            self._fluid.set_capacity(self.clock.now, resource, self._capacities[resource])
        self._settle_soon()

    def _settle_soon(self) -> None:
        """Schedule one settlement for everything that begins or ends at this moment."""
        if not self._settling:
            self._settling = True
            self.clock.at(self.clock.now, NETWORK, self._settle)

    def _settle(self) -> None:
        self._settling = False
        now = self.clock.now
        for resource, quota in self._quotas.items():
            capacity = self._capacities[resource]
            self._fluid.set_capacity(now, resource, capacity if quota.open(now) else min(capacity, quota.cores))
        due_s = self._fluid.next_s
        for resource, quota in self._quotas.items():
            due_s = min(due_s, quota.use(self._fluid.used(resource)))
        if due_s != self._due_s and math.isfinite(due_s):
            self.clock.at(due_s, MACHINE, self._complete)
        self._due_s = due_s

    def _complete(self) -> None:
        """Call back completed activities; after a change of rates there may be none."""
        completed = self._fluid.completed(self.clock.now)
        for key in completed:
            self._book(key, 0.0)
        for then in [self._then.pop(key) for key in completed]:
            then()
        self._due_s = math.inf
        self._settle_soon()
