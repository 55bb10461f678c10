"""The cost of a mode: seconds per unit of progress, from predicted iteration times and the noise scale (pure).

Source: STAR, equations 1 to 3. An update of M samples makes 1 / (1 + phi / M) of the progress that one of infinitely
many would make, phi being the gradient noise scale; so a unit of progress takes 1 + phi / M updates.

As printed, the equations count a stale gradient as much as a fresh one. Then asynchronous updates win whatever the
times are: x workers cannot be waited for in less than x times the mean interval of single gradients. Therefore
``priced`` multiplies the updates by 1 + kappa times the mean square of their staleness. That orders equal workers; but
a straggler's few gradients are very stale, for which it charges far too much in static x-order, and only the straggler
in dynamic x-order. ``pooled`` multiplies by 1 + kappa times the square of the lag
(:func:`strategies.star.orders.order_lags`), one number for all gradients of a mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeVar, final

from predictors.history import Floats
from reading.ranges import Checked, NonNegativeFloat, OneOf, check_number
from strategies.star.orders import group_lag, order_intervals, order_lags

MODE_COSTS = ("pooled", "priced", "literal", "published", "order")
FIGURE_16 = 0.14
"""``kappa`` of ``priced`` that fits STAR's figure 16."""


Some = TypeVar("Some", float, Floats)
"""The values of one mode, or of several."""


class Pace(NamedTuple):
    """Mean seconds between updates, the mean square of their gradients' staleness in updates, and the lag."""

    update_s: float
    sqr_staleness: float = 0.0
    lag: float = 0.0


def updates_per_progress(samples: float, phi_samples: float) -> float:
    """Updates of so many samples that make one unit of progress, with a noise scale of ``phi_samples``."""
    return 1.0 + phi_samples / samples


@final
@dataclass(frozen=True, kw_only=True)
class ModeTimes(Checked):
    """Seconds per unit of progress of every mode of a parameter-server job.

    ``times_s`` are the predicted iteration times of all workers; each computes ``batch_samples``.

    Attributes:
        mode_cost: how updates are timed and priced. ``priced``: by simulation, the mean squared staleness in updates
            costs, and in dynamic x-order every cluster its own progress only (the default); ``pooled``: by simulation,
            the squared lag costs, and it costs the progress of all; ``literal``: by simulation, staleness costs nothing
            (the equations as printed); ``published``: an update of x takes the time of the x-th fastest worker, mapped
            linearly to the range from one gradient's interval to the slowest worker's time (STAR's code), staleness
            costs nothing; ``order``: it takes the x-th smallest time (another reading of the text), staleness costs
            nothing.
        kappa: price of one unit of squared staleness for ``priced``, of squared lag for ``pooled``. 0.14 of the first
            fits STAR's figure 16 (x = 1, 2, 4, 8 of eight equal workers) where noise dominates. Either depends on the
            workload and its learning rate: ``scripts/fitting/fit_kappa.py``.
    """

    mode_cost: Annotated[str, OneOf(*MODE_COSTS)] = "priced"
    kappa: NonNegativeFloat = FIGURE_16

    def __str__(self) -> str:
        """The name in a decision's record."""
        return f"{self.mode_cost}, kappa {self.kappa:g}" if self.mode_cost in ("pooled", "priced") else self.mode_cost

    def price(self, sqr_staleness: Some, lag: Some) -> Some:
        """The factor by which staleness multiplies the updates of a unit of progress."""
        if self.mode_cost == "pooled":
            return 1.0 + self.kappa * lag**2
        return 1.0 + (self.kappa if self.mode_cost == "priced" else 0.0) * sqr_staleness

    def static_s(
        self, times_s: Sequence[float], batch_samples: float, phi_samples: float, sizes: Sequence[int] = ()
    ) -> dict[int, float]:
        """T_x of equation 1 by x: an update of any x gradients. ``sizes``: the values of x; none: all."""
        sizes = sizes or range(1, len(times_s) + 1)
        return {
            x: updates_per_progress(x * batch_samples, phi_samples)
            * self.price(pace.sqr_staleness, pace.lag)
            * pace.update_s
            for x, pace in zip(sizes, self._paces(times_s, sizes), strict=True)
        }

    def dynamic_s(
        self,
        times_s: Sequence[float],
        groups: Sequence[Sequence[int]],
        batch_samples: float,
        phi_samples: float,
    ) -> float:
        """T_d of equation 2: every group of workers, given by their indices, makes updates of its own.

        The progress of all groups adds up. A group is stale by the updates that the others make during its own.
        """
        longest_s = [max(times_s[worker] for worker in group) for group in groups]
        lag = group_lag(times_s, groups) if self.mode_cost == "pooled" else 0.0
        progress = 0.0
        for group, update_s in zip(groups, longest_s, strict=True):
            staleness = sum(update_s / other_s for other_s in longest_s) - 1.0 if self.mode_cost == "priced" else 0.0
            updates = updates_per_progress(len(group) * batch_samples, phi_samples)
            progress += 1.0 / (updates * self.price(staleness**2, lag) * update_s)
        return 1.0 / progress

    def all_s(
        self,
        times_s: Sequence[float],
        batch_samples: float,
        phi_samples: float,
        sizes: Sequence[int],
        groupings: Sequence[Sequence[Sequence[int]]],
    ) -> tuple[dict[int, float], list[float]]:
        """T_x by x of ``sizes``, and T_d of every grouping of workers."""
        static_s = self.static_s(times_s, batch_samples, phi_samples, sizes) if sizes else {}
        return static_s, [self.dynamic_s(times_s, groups, batch_samples, phi_samples) for groups in groupings]

    def _paces(self, times_s: Sequence[float], sizes: Sequence[int]) -> list[Pace]:
        if self.mode_cost in ("pooled", "priced", "literal"):
            intervals = order_intervals(times_s, sizes)
            lags = order_lags(times_s, sizes) if self.mode_cost == "pooled" else [0.0] * len(intervals)
            return [Pace(*interval, lag) for interval, lag in zip(intervals, lags, strict=True)]
        ordered = sorted(times_s)
        if self.mode_cost == "order":
            return [Pace(ordered[x - 1]) for x in sizes]
        low, high = 1.0 / sum(1.0 / time_s for time_s in ordered), ordered[-1]
        width_s = high - ordered[0]
        part = [(ordered[x - 1] - ordered[0]) / width_s if width_s > 0 else 1.0 for x in sizes]
        return [Pace(low + (high - low) * one) for one in part]


def ring_s(
    members_s: Sequence[float], children_s: Sequence[float], wait_s: float, batch_samples: float, phi_samples: float
) -> float:
    """T_a of equation 3: seconds per unit of progress of a ring of members, which wait ``wait_s`` for their children.

    Args:
        members_s: predicted iteration times of the members; there is one at least.
        children_s: seconds until each child has delivered to its parent; a child that has by then counts.
        wait_s: seconds that parents wait.
        batch_samples: samples of every worker.
        phi_samples: the noise scale.
    """
    round_s = max(members_s) + wait_s
    delivered = len(members_s) + sum(time_s <= round_s for time_s in children_s)
    return updates_per_progress(delivered * batch_samples, phi_samples) * round_s


FITTED: Mapping[str, Sequence[tuple[float, float]]] = {
    "digits": ((0.03, 1.3), (0.1, 5.8), (0.2, 21.0)),
    "digits_cnn": ((0.003, 1.0), (0.05, 3.2)),
}
"""Learning rates, ascending, by workload, and the ``kappa`` that ``scripts/fitting/fit_kappa.py WORKLOAD --lr RATES
--phi 300`` fitted to 4 workers there (three seeds)."""
UNKNOWN = 16.0
"""For workloads without a fit: too high a price costs 10 to 18 %, too low a one lets training diverge."""


def kappa_for(mode_cost: str, workload: str | None, lr: float | None) -> float:
    """The price of the workload at the next fitted rate that is not below ``lr``: staleness costs more at higher ones.

    Above all fitted rates it is the highest price or the one of unknown workloads, whichever is more.
    """
    if mode_cost != "pooled":
        return FIGURE_16
    if not isinstance(workload, str | None):
        raise ValueError(f"kappa_workload={workload}: must be the name of a workload, or null")
    if lr is not None:
        check_number("kappa_lr", lr, 0.0)
    fitted = FITTED.get(workload or "", ())
    above = max([UNKNOWN, *(kappa for _, kappa in fitted)])
    return next((kappa for rate, kappa in fitted if lr is not None and lr <= rate), above)
