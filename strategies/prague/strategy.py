"""Prague: partial all-reduce in random groups that do not overlap.

Symbols: c_w the number of groups that worker w has averaged in; C the threshold of the slowdown filter.

1. Every worker computes a gradient on parameters of its own, and steps them by it.
2. After ``period`` steps it asks the group generator for its group. If the generator has a group for the worker, made
   for an earlier request, that is the group.
3. If not, the generator divides all workers without a group at random into groups of ``group_size`` (Group Division).
   The slowdown filter leaves out the workers w with c_requester - c_w >= C.
4. P-Reduce: when all members of a group have asked, each continues from the average of their parameters. A worker has
   one group at a time, so groups do not conflict, and any number of them average at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from reading.ranges import NonNegativeInt, PositiveInt
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.prague.divided import DividedGate


@final
@dataclass(kw_only=True)
class Prague(Composition):
    """Workers step alone, and average their parameters in small random groups; at the end of an epoch all average.

    Source: Luo, He, Zhuo and Qian, "Prague: high-performance heterogeneity-aware asynchronous decentralized training",
    ASPLOS 2020 (arXiv:1909.08029); the algorithm is above, the generator runs at the coordinator. Decided at
    ``Arrived``: a gradient moves the worker's own parameters (``StepAlone``), and the last member of a group that
    arrives triggers its ``Average``.

    Departures: the filter counts groups that are complete, not requests. One ``Apply`` averages all workers at the end
    of an epoch, when no worker has data, and after ``common_every`` steps: evaluations and checkpoints read these
    parameters. In this average a worker's share is its share of the samples since the last one. A group of all workers
    is such an average, too.

    Attributes:
        group_size: most members of a group; a division makes groups of nearly equal size.
        period: own steps between two averages of a worker; the paper's is 1.
        max_behind: C, groups by which a worker may be behind the one that asks and still be in the division.
        common_every: steps of a worker, in the mean over workers, between two averages of all; None: the ends of
            epochs alone.
        group_seed: of the random divisions.
        data: allocation policy of the data service.
    """

    group_size: PositiveInt = 2
    period: PositiveInt = 1
    max_behind: PositiveInt = 2
    common_every: PositiveInt | None = None
    group_seed: NonNegativeInt = 0
    data: str = "dynamic"

    def compose(self) -> Parts:
        return Parts(gate=self.make(DividedGate))
