"""Activities that share resources on the virtual clock: each calls back at its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import final

from runtime.virtual.clock import MACHINE, NETWORK, Clock
from runtime.virtual.machines.fluid import Fluid
from runtime.virtual.machines.quotas import Quota

Then = Callable[[], object]


@final
class Sharing:
    """A :class:`Fluid` that follows a clock; ``capacities`` are those of its resources."""

    def __init__(self, clock: Clock, capacities: Mapping[str, float]) -> None:
        self.clock = clock
        self._fluid = Fluid(capacities)
        self._open: dict[Hashable, tuple[Then, float, tuple[str, ...], tuple[str, ...], float]] = {}
        """What happens at the end of each activity, its amount, its accounts, its resources and its limit."""
        self._weights: dict[Hashable, float] = {}
        """Of the activities for which it is not 1."""
        self._own: dict[str, dict[Hashable, None]] = {}
        """The activities in progress of an account, in the order in which they began."""
        self._done: dict[str, float] = {}
        self._settling = False
        self._due_s = math.inf

    def add(self, capacities: Mapping[str, float]) -> None:
        """Add resources with their capacities."""
        self._fluid.add(capacities)

    def remove(self, resources: Collection[str]) -> None:
        """Resources that nobody uses any more, with their quotas."""
        self._fluid.remove(resources)

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
        self._open[key] = then, amount, accounts, resources, limit
        for account in accounts:
            self._own.setdefault(account, {})[key] = None
        self._fluid.start(self.clock.now, key, amount, resources, limit)
        self._settle_soon()

    def stop(self, key: Hashable) -> None:
        """End an activity early, if it is in progress."""
        if key in self._open:
            self._close(key, self._fluid.stop(self.clock.now, key))
            self._settle_soon()

    def left(self, key: Hashable) -> float:
        """How much of an activity's amount is left now: 0 if it is not in progress."""
        return self._fluid.left(self.clock.now, key) if key in self._open else 0.0

    def divide(self, account: str, weight: float) -> None:
        """All activities of an account in progress have this weight together, each an equal part of it."""
        own = self._own.get(account, {})
        for key in own:
            if (each := weight / len(own)) != self._weights.get(key, 1.0):
                self._weights[key] = each
                _, _, _, resources, limit = self._open[key]
                left = self._fluid.stop(self.clock.now, key)
                self._fluid.start(self.clock.now, key, left, resources, limit, each)
                self._settle_soon()

    def done(self, account: str) -> float:
        """The sum of all that was booked, with what is done by now of activities in progress."""
        now = self.clock.now
        own = self._own.get(account, {})
        return self._done.get(account, 0.0) + sum(self._open[key][1] - self._fluid.left(now, key) for key in own)

    def _close(self, key: Hashable, left: float) -> Then:
        """Book what was done of an activity; returns what happens at its end."""
        then, amount, accounts, _, _ = self._open.pop(key)
        if self._weights:
            self._weights.pop(key, None)
        for account in accounts:
            del self._own[account][key]
            self._done[account] = self._done.get(account, 0.0) + amount - left
        return then

    def set_capacity(self, resource: str, capacity: float) -> None:
        """Change a capacity from now on, also for work in progress."""
        self._fluid.set_capacity(self.clock.now, resource, capacity)
        self._settle_soon()

    def set_quota(self, resource: str, quota: Quota | None) -> None:
        """Replace a resource's quota from now on."""
        self._fluid.set_quota(self.clock.now, resource, quota)
        self._settle_soon()

    def _settle_soon(self) -> None:
        """Schedule one settlement for everything that begins or ends at this moment."""
        if not self._settling:
            self._settling = True
            self.clock.at(self.clock.now, NETWORK, self._settle)

    def _settle(self) -> None:
        self._settling = False
        due_s = self._fluid.next_s
        if due_s != self._due_s and math.isfinite(due_s):
            self.clock.at(due_s, MACHINE, self._complete)
        self._due_s = due_s

    def _complete(self) -> None:
        """Call back completed activities; after a change of rates there may be none."""
        if self.clock.now < self._due_s:
            return
        completed = self._fluid.completed(self.clock.now)
        self._due_s = math.inf
        settles, self._settling = not self._settling, True
        for then in [self._close(key, 0.0) for key in completed]:
            then()
        if not settles:
            return
        if self.clock.is_next(NETWORK):
            self._settle()
        else:
            self.clock.at(self.clock.now, NETWORK, self._settle)
