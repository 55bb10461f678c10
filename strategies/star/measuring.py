"""The time that the last decision's mode takes while it is used, for a model to learn from (section IV-C2; pure).

A ring mode's time is also a line of the record, from which a model may learn afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np

from strategies.protocol import Grad
from strategies.star.learned import Asked, ModeLearner
from strategies.star.ring_modes import RingMode
from strategies.star.times import ModeTimes, updates_per_progress


class HeldPace(NamedTuple):
    """Means over the updates of a mode: seconds between them, samples, squared staleness in updates, and the lag."""

    update_s: float
    samples: float
    sqr_staleness: float
    lag: float

    def unit_s(self, phi_samples: float, costs: ModeTimes) -> float:
        """Seconds per unit of progress where all updates are alike, with these prices."""
        return (
            updates_per_progress(self.samples, phi_samples) * costs.price(self.sqr_staleness, self.lag) * self.update_s
        )


@final
class Held:
    """Collects the updates of one mode since it was taken, at time ``t``.

    The updates of a group are alike, as are all updates without groups; ``place`` distinguishes groups.
    ``global_samples``: a global batch, in which the lag counts staleness (:func:`strategies.star.orders.order_lags`).
    """

    def __init__(self, t: float, version: int, global_samples: float) -> None:
        self._begun_s = self._last_s = t
        self._version, self._global_samples = version, global_samples
        self._samples = self._lags = 0.0
        self._sums: dict[int, list[float]] = {}
        self.updates = 0

    def count_update(self, t: float, place: int, grads: Sequence[Grad]) -> None:
        """One more update, of gradients of one sample or more; those at the very beginning are of the change itself."""
        if t <= self._begun_s:
            self._version += 1
            return
        sums = self._sums.setdefault(place, [0.0, 0.0, 0.0, 0.0])
        sums[0] += 1.0
        each = np.array([len(grad.members) or 1 for grad in grads])  # several in a sum, all as old as the oldest
        sums[1] += int(each.sum())
        samples = sum(grad.samples for grad in grads)
        sums[2] += samples
        staleness = np.array([self._version - grad.version for grad in grads])
        sums[3] += float((each * staleness**2).sum())
        self._version += 1
        self._last_s = t
        self.updates += 1
        self._samples += samples
        batches = staleness * (self._samples / self.updates / self._global_samples)
        self._lags += float((each * batches / (1.0 + batches)).sum() / each.sum())

    def unit_s(self, phi_samples: float, costs: ModeTimes) -> float:
        """Measured seconds per unit of progress, with the same prices as the predicted ones; inf without any time."""
        progress = 0.0
        for updates, grads, samples, squares in self._sums.values():
            factor = costs.price(squares / grads, self._lags / self.updates)
            progress += updates / (updates_per_progress(samples / updates, phi_samples) * factor)
        seconds = self._last_s - self._begun_s
        return seconds / progress if progress > 0 and seconds > 0 else float("inf")

    @property
    def pace(self) -> HeldPace:
        """Means over all updates, of which there must be some; its ``unit_s`` holds if all updates are alike."""
        _, grads, samples, squares = (sum(column) for column in zip(*self._sums.values(), strict=True))
        seconds = self._last_s - self._begun_s
        return HeldPace(seconds / self.updates, samples / self.updates, squares / grads, self._lags / self.updates)


@final
class Measuring:
    """Measures a mode from when it is taken until the next decision, if a decision chose it and all workers stay.

    ``costs`` has the prices of staleness; ``learning`` None: no model learns, and nothing is measured.
    """

    def __init__(self, learning: ModeLearner | None, costs: ModeTimes) -> None:
        self._learning, self._costs = learning, costs
        self._version = 0
        self.asked: Asked | None = None
        """The last decision, as long as its mode is used and all workers stay; None: the mode followed without one."""
        self._held: Held | None = None

    def forget(self, version: int | None = None) -> None:
        """Workers came or went, or a checkpoint of ``version`` was restored: the measured time belongs to no mode."""
        self._held = self.asked = None
        if version is not None:
            self._version = version

    def count_update(self, t: float, place: int, grads: Sequence[Grad]) -> None:
        """An update was made, by the group at ``place``."""
        self._version += 1
        if self._held is not None:
            self._held.count_update(t, place, grads)

    def begin(self, t: float, global_samples: float) -> None:
        """The mode that was chosen is used from now on, with so many samples in a global batch."""
        if self._learning is None or self.asked is None:
            self._held = None
        else:
            self._held = Held(t, self._version, global_samples)

    def learn(self, mode: Any) -> Held | None:
        """``mode`` has been used until now: take its time, if a model learns."""
        held, asked, self._held = self._held, self.asked, None
        if self._learning is None or held is None or asked is None or held.updates < self._learning.hold_updates:
            return None
        self._learning.learn_time(asked, mode, held.unit_s(asked.phi_samples, self._costs))
        return held


NUMBERS = r"([-+.e\d ]+)"
LINE = re.compile(
    rf"(?:ring of all|ring without (?P<apart>[\d ]+), wait (?P<wait>{NUMBERS}) s): "
    rf"(?P<updates>\d+) updates of (?P<samples>{NUMBERS}) samples every (?P<update>{NUMBERS}) s, "
    rf"squared staleness (?P<squares>{NUMBERS}), lag (?P<lag>{NUMBERS}); "
    rf"overhead (?P<overhead>{NUMBERS}) s; workers (?P<workers>[\d ]+); T (?P<times>{NUMBERS}) s; "
    rf"delivered (?P<delivered>{NUMBERS}) s"
)


class RingTook(NamedTuple):
    """A mode that was used for so many updates, and what was predicted when it was chosen.

    ``times_s`` and ``delivered_s`` are by worker, in the order of ``workers``; they and ``overhead_s`` are as in
    :class:`strategies.star.ring_question.RingQuestion`.
    """

    mode: RingMode
    pace: HeldPace
    workers: Sequence[int]
    times_s: Sequence[float]
    delivered_s: Sequence[float]
    updates: int
    overhead_s: float

    def __str__(self) -> str:
        update_s, samples, squares, lag = self.pace
        times, delivered = (" ".join(f"{one:.6g}" for one in by) for by in (self.times_s, self.delivered_s))
        return (
            f"{self.mode}: {self.updates} updates of {samples:.6g} samples every {update_s:.6g} s, "
            f"squared staleness {squares:.6g}, lag {lag:.6g}; "
            f"overhead {self.overhead_s:.6g} s; workers {' '.join(map(str, self.workers))}; "
            f"T {times} s; delivered {delivered} s"
        )


def read_took(line: str) -> RingTook | None:
    """The one that such a line says; None: it is another line."""
    found = LINE.fullmatch(line)
    if found is None:
        return None
    apart = tuple(int(word) for word in (found["apart"] or "").split())
    update_s, samples, squares, lag = (float(found[name]) for name in ("update", "samples", "squares", "lag"))
    times_s, delivered_s = (tuple(float(word) for word in found[name].split()) for name in ("times", "delivered"))
    return RingTook(
        RingMode(apart, float(found["wait"] or 0.0)),
        HeldPace(update_s, samples, squares, lag),
        tuple(int(word) for word in found["workers"].split()),
        times_s,
        delivered_s,
        int(found["updates"]),
        float(found["overhead"]),
    )
