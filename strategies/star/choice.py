"""The choice of a mode by the costs of all: candidates, hysteresis and the decision with its numbers (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import final

import msgspec

from reading.ranges import check_number
from strategies.star.modal import ASGD, SSGD, Mode
from strategies.star.times import ModeTimes

MODES = ("ssgd", "asgd", "static", "dynamic")
MOST_SIZES = 64
"""With more workers than this only some x are candidates: to simulate all would take long."""

Groups = tuple[tuple[int, ...], ...]
Pricing = Callable[[Sequence[int], Sequence[Sequence[Sequence[int]]]], tuple[dict[int, float], list[float]]]
"""Seconds per unit of progress: of updates of any x gradients, by x; of updates of every group of workers, which are
given by their places, by grouping."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision at time ``t``, and the numbers on which it is based.

    ``mode_s`` are the seconds per unit of progress of all candidates and of the present mode, least first;
    ``why`` says why the first of them was not taken, if it was not.
    """

    t: float
    workers: tuple[int, ...]
    times_s: tuple[float, ...]
    tagged: tuple[int, ...]
    phi_samples: float
    phi_age_updates: float
    mode_s: dict[Mode, float]
    before: Mode
    chosen: Mode
    why: str = ""

    def __str__(self) -> str:
        """One line for the record: T and d by worker, phi, and every mode's seconds with its disadvantage."""
        fastest_s = min(self.times_s)
        times = " ".join(f"{time_s:.4g}" for time_s in self.times_s)
        deviations = " ".join(f"{time_s / fastest_s - 1:.2f}" for time_s in self.times_s)
        tagged = " ".join(map(str, self.tagged))
        chosen_s = self.mode_s[self.chosen]
        others = ", ".join(
            f"{mode} {mode_s:.4g} s ({mode_s / chosen_s - 1:+.0%})"
            for mode, mode_s in self.mode_s.items()
            if mode != self.chosen
        )
        phi = f"phi {self.phi_samples:.4g} samples, {self.phi_age_updates:g} updates old"
        return (
            f"{self.t:.6g} s: stragglers {tagged}; T {times} s; d {deviations}; {phi}; "
            f"{self.chosen} {chosen_s:.4g} s, was {self.before}{self.why}; rejected: {others or 'none'}"
        )


@final
@dataclass(frozen=True, kw_only=True)
class Choice:
    """Chooses the mode with the least predicted time per unit of progress.

    Ties: the larger x, and static before dynamic. One group is SSGD and groups of one are ASGD, with their prices.

    Attributes:
        modes: the candidates: any of ``MODES``. SSGD need not be listed: it is the mode without stragglers.
        min_gain_frac: part by which the best must be better than the present mode for a change (STAR: 0).
        costs: how the modes are priced.
    """

    modes: Sequence[str] = MODES
    min_gain_frac: float = 0.0
    costs: ModeTimes = field(default_factory=ModeTimes)

    def __post_init__(self) -> None:
        if isinstance(self.modes, str) or not isinstance(self.modes, Sequence) or not self.modes:
            raise ValueError(f"modes={self.modes}: must be a list of one or more of {', '.join(MODES)}")
        for mode in self.modes:
            if mode not in MODES:
                raise ValueError(f"modes={mode}: no such mode; there are {', '.join(MODES)}")
        if len(set(self.modes)) < len(self.modes):
            raise ValueError(f"modes={','.join(self.modes)}: must be different modes")
        check_gain(self.min_gain_frac)

    def price_modes(
        self,
        workers: Sequence[int],
        times_s: Sequence[float],
        groups: Groups,
        batch_samples: float,
        phi_samples: float,
        present: Mode = SSGD,
        by: Pricing | None = None,
    ) -> dict[Mode, float]:
        """Seconds per unit of progress of all candidates and of the ``present`` mode, the best first.

        ``times_s`` are the workers' predicted times in their order, ``groups`` what dynamic x-order would be,
        ``by`` what costs modes instead of :attr:`costs`.
        """
        count, price = len(workers), by or partial(self.costs.all_s, times_s, batch_samples, phi_samples)
        sizes = {1} if "asgd" in self.modes else set[int]()
        sizes |= {count} if "ssgd" in self.modes else set()
        if "static" in self.modes:
            sizes |= set(static_sizes(count, groups))
        if present.groups is None:
            sizes.add(count if present.x is None else min(present.x, count))
        parted = {groups} if "dynamic" in self.modes and self._is_new(groups, count) else set[Groups]()
        if present.groups is not None:
            parted.add(present.groups)
        place = {worker: index for index, worker in enumerate(workers)}
        groupings = sorted(parted)
        static_s, dynamic_s = price(sorted(sizes), [to_places(one, place) for one in groupings])
        found = {mode_of(x, count): seconds for x, seconds in static_s.items()}
        found |= {Mode(groups=one): seconds for one, seconds in zip(groupings, dynamic_s, strict=True)}
        return dict(
            sorted(found.items(), key=lambda item: (item[1], item[0].groups is not None, -(item[0].x or count)))
        )

    def _is_new(self, groups: Groups, count: int) -> bool:
        """Whether groups are another mode than SSGD and ASGD, where those are candidates."""
        if len(groups) == 1:
            return "ssgd" not in self.modes
        return len(groups) < count or "asgd" not in self.modes

    def better(self, mode_s: Mapping[Mode, float], present: Mode, count: int) -> list[Mode]:
        """The modes that are better than the present one by what a change must gain, the best first."""
        present = mode_among_costs(present, count)
        most_s = (1 - self.min_gain_frac) * mode_s[present]
        return [mode for mode, seconds in mode_s.items() if mode != present and seconds < most_s]

    def choose(self, mode_s: Mapping[Mode, float], present: Mode, count: int) -> tuple[Mode, str]:
        """The mode to take, and why it is not the best if it is not."""
        present = mode_among_costs(present, count)
        best = next(iter(mode_s))
        if best == present or self.better(mode_s, present, count):
            return best, ""
        return present, f" and stays: {best} gains less than {self.min_gain_frac:.0%}"


def check_gain(min_gain_frac: float) -> None:
    """Raise ``ValueError`` unless it is a part by which a mode can be better than another."""
    check_number("min_gain_frac", min_gain_frac, 0.0)
    if min_gain_frac >= 1:
        raise ValueError(f"min_gain_frac={min_gain_frac}: must be less than 1, or nothing would ever change")


def mode_of(x: int, count: int) -> Mode:
    """The mode in which x of ``count`` workers' gradients make an update."""
    return SSGD if x == count else ASGD if x == 1 else Mode(x=x)


def mode_among_costs(present: Mode, count: int) -> Mode:
    """The present mode as it is among the costs: with fewer workers than x it is SSGD."""
    return present if present.groups is not None else mode_of(min(present.x or count, count), count)


def to_places(groups: Groups, place: Mapping[int, int]) -> list[list[int]]:
    """Groups of workers as groups of their places: one of its own for a worker in none; absent workers are left out."""
    there = [[place[worker] for worker in group if worker in place] for group in groups]
    named = {index for group in there for index in group}
    return [group for group in there if group] + [[index] for index in place.values() if index not in named]


def static_sizes(count: int, groups: Groups) -> list[int]:
    """The x between ASGD and SSGD that are candidates; with many workers powers of two and the bounds of groups."""
    if count <= MOST_SIZES:
        return list(range(2, count))
    bounds, members = set[int](), 0
    for group in groups:
        members += len(group)
        bounds.add(members)
    return sorted(x for x in bounds | {2**power for power in range(1, count.bit_length())} if 1 < x < count)
