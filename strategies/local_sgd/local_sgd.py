"""Local SGD: workers train alone, and average their parameters every H steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from reading.ranges import PositiveInt
from strategies.local_sgd.periodic import PeriodicGate
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts


@final
@dataclass(kw_only=True)
class LocalSGD(Composition):
    """Every worker makes ``period`` steps on parameters of its own; then all continue from the average.

    Source: Stich, "Local SGD converges fast and communicates little", ICLR 2019, algorithm 1 with the same steps of
    averaging for all workers. Decided at ``Arrived``: a gradient moves the worker's own parameters (``StepAlone``);
    when the last worker has made its last step, one ``Apply`` averages.

    Departures: a worker's share of the average is its share of the samples since the last one, which differ at the
    end of an epoch alone. The optimizer is the workload's, not only plain SGD: its state stays with the worker.

    Attributes:
        period: H, own steps between two averages.
        data: allocation policy of the data service.
    """

    period: PositiveInt = 8
    data: str = "dynamic"

    def compose(self) -> Parts:
        return Parts(gate=self.make(PeriodicGate))
