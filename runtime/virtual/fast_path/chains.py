"""Rounds as a chain of additions: from one round to the next lie always the same sums, and numpy adds in order.

What is added depends on three choices: whether the parameters or the data come last, which server is the slowest, and
after which gradient the coordinator has no pause any more. :class:`Chain` guesses them, adds, and says for how many
rounds all three were right. As a sum is never rounded below that of less, those rounds are right to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from runtime.virtual.fast_path.regular import Floats


@final
class Chain:
    """Consecutive rounds of all workers.

    Args:
        compute_s: float64 [rounds, workers].
        durations: of an update after any of these rounds, by server: seconds of work, injected seconds.
        begun_s: when the first round is ordered, and when the servers have done the update before it.

    Attributes:
        t: when the coordinator has handled the last gradient of each round.
        sent_s: when each round is ordered.
        taken_s: when gradients are at the servers, float64 [rounds, workers].
        valid: the number of rounds for which all this is right.
    """

    def __init__(
        self,
        compute_s: Floats,
        durations: Sequence[tuple[float, float]],
        *,
        begun_s: tuple[float, float],
        data_s: float,
        transfer_s: float,
        control_s: float,
        decision_s: float,
    ) -> None:
        self.compute_s, self.transfer_s = compute_s, transfer_s
        self.control_s, self.decision_s = control_s, decision_s
        slowest = max(durations, key=sum)
        waits = sum(slowest) + transfer_s >= data_s  # for the parameters, not for the data
        sent_s, idle_s = begun_s
        base_s, queued = self._last()
        rounds, longest = len(compute_s), int(queued.max())
        pull = [transfer_s] if waits else [data_s]
        rest = [decision_s, control_s, *(slowest if waits else ())]
        steps = np.empty((rounds, 4 + longest + len(rest)))
        steps[:, :4] = (*pull, 0.0, transfer_s, control_s)
        steps[:, 1] = base_s
        steps[:, 4 : 4 + longest] = np.where(np.arange(longest) < queued[:, None], decision_s, 0.0)
        steps[:, 4 + longest :] = rest
        reached_s = sent_s + control_s
        first_s = idle_s if waits else reached_s
        sums = np.cumsum(np.concatenate([[first_s], steps.ravel()]))[1:].reshape(steps.shape)
        self.t = np.ascontiguousarray(sums[:, 3 + longest])
        self.sent_s = np.concatenate([[sent_s], sums[:-1, 4 + longest]])
        self.reached_s = np.concatenate([[reached_s], sums[:-1, 5 + longest]])
        updated_s = [self.reached_s + busy_s + injected_s for busy_s, injected_s in sorted(set(durations))]
        self.idle_s = np.maximum.reduce(updated_s)
        self.idle_s[0] = idle_s
        self.loaded_s, self.delivered_s = self.reached_s + data_s, self.idle_s + transfer_s
        self.pulled_s = np.maximum(self.loaded_s, self.delivered_s)
        right = self.pulled_s == sums[:, 0]
        if decision_s:
            right &= self.handled_s.max(axis=1) == self.t
        self.valid = rounds if right.all() else int(np.argmin(right))

    def _last(self) -> tuple[Floats, NDArray[np.int64]]:
        """Computing times of the gradient after which the coordinator has no pause, and how many come behind it."""
        rounds, workers = self.compute_s.shape
        if not self.decision_s:
            return self.compute_s.max(axis=1), np.zeros(rounds, np.int64)
        ordered = np.sort(self.compute_s, axis=1)
        first = np.argmax(ordered - self.decision_s * np.arange(workers), axis=1)
        return ordered[np.arange(rounds), first], workers - 1 - first

    @cached_property
    def since_s(self) -> Floats:
        """When gradients are computed."""
        found: Floats = self.pulled_s[:, None] + self.compute_s
        return found

    @cached_property
    def taken_s(self) -> Floats:
        """The servers are idle: a round pulls what they have updated."""
        found: Floats = self.since_s + self.transfer_s
        return found

    @cached_property
    def handled_s(self) -> Floats:
        """When the coordinator handles each gradient."""
        arrived_s = self.taken_s + self.control_s
        return handled_s(arrived_s, self.sent_s, self.decision_s) if self.decision_s else arrived_s

    def columns(self, rounds: int, idle_since_s: Floats) -> dict[str, Floats]:
        """Durations in the first rounds; workers are idle since ``idle_since_s`` before them."""
        idle_since_s = np.concatenate([idle_since_s[None], self.taken_s[: rounds - 1]])
        reached_s, loaded_s, delivered_s = self.reached_s[:rounds], self.loaded_s[:rounds], self.delivered_s[:rounds]
        return {
            "wait_s": np.maximum(0.0, reached_s[:, None] - idle_since_s),
            "pull_s": (self.pulled_s[:rounds] - loaded_s)[:, None],
            "compute_s": self.compute_s[:rounds],
            "send_s": self.taken_s[:rounds] - self.since_s[:rounds],
            "recv_s": np.maximum(0.0, delivered_s - np.maximum(self.idle_s[:rounds], loaded_s))[:, None],
        }


def handled_s(arrived_s: Floats, free_s: Floats | float, decision_s: float) -> Floats:
    """When a coordinator, free from ``free_s`` on, handles arrivals [rounds, n] that take ``decision_s`` each."""
    order = np.argsort(arrived_s, axis=1, kind="stable")
    queue = np.ascontiguousarray(np.take_along_axis(arrived_s, order, axis=1).T)
    for place in queue:
        free_s = np.maximum(place, free_s, out=place) + decision_s
    found = np.empty_like(arrived_s)
    np.put_along_axis(found, order, queue.T, axis=1)
    return found
