"""What a loop over the events of a regular job notes of each gradient, for :mod:`runtime.virtual.fast_path.flights`."""

from __future__ import annotations

from array import array
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from runtime.virtual.fast_path.regular import Floats

Integers = NDArray[np.int64]


class Noted(NamedTuple):
    """A chunk: gradients that were handled, in that order, and Computes that were ordered meanwhile, by number."""

    grads: Integers
    """Number of each gradient, [rows]."""
    senders: Integers
    """Who computed it, [rows]."""
    taken_s: Floats
    """When the servers took it, [rows]."""
    handled_s: Floats
    """When the coordinator handled it, [rows]."""
    idle_at_s: Floats
    """When the servers have done its update, [rows]."""
    after: Integers
    """How many gradients of the chunk were handled before each Compute, [orders]."""
    own_s: Floats
    """Its computing time without injected seconds, [orders]."""
    injected_s: Floats
    """Its injected seconds, [orders]."""


@final
class Notes:
    """The notes of the loop in Python: appended one by one, since that is what Python does fastest."""

    def __init__(self) -> None:
        self.grads, self.workers, self.taken_s = array("q"), array("q"), array("d")
        """Gradients in the order in which they reach servers and coordinator: also those that nobody has handled."""
        self.handled_s, self.idle_s, self.own_s = array("d"), array("d"), array("d")
        self.ordered: list[tuple[int, int]] = []
        """How many Computes more than one follow each gradient of these (0: the one before the first)."""
        self.injected: list[tuple[int, float]] = []
        """Places of delayed Computes in ``own_s``, and their injected seconds."""

    def take(self) -> Noted:
        """Returns the gradients that have been handled, and forgets them."""
        rows, orders = len(self.handled_s), len(self.own_s)
        injected_s = np.zeros(orders)
        for place, seconds in self.injected:
            injected_s[place] = seconds
        found = Noted(
            grads=np.array(self.grads[:rows]),
            senders=np.array(self.workers[:rows]),
            taken_s=np.array(self.taken_s[:rows]),
            handled_s=np.array(self.handled_s),
            idle_at_s=np.array(self.idle_s),
            after=self._after(rows, orders),
            own_s=np.array(self.own_s),
            injected_s=injected_s,
        )
        del self.grads[:rows], self.workers[:rows], self.taken_s[:rows]
        del self.handled_s[:], self.idle_s[:], self.own_s[:], self.ordered[:], self.injected[:]
        return found

    def _after(self, rows: int, orders: int) -> Integers:
        follow = np.ones(rows + 1, np.int64)
        for place, number in self.ordered:
            follow[place] += number
        return np.arange(rows + 1).repeat(follow)[:orders]
