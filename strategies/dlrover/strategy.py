"""DLRover: asynchronous training whose workers and servers grow while it runs, by a plan from what they use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.dlrover.adjust import Rules, RuleSettings
from strategies.dlrover.brain import BrainSettings, BrainTimes
from strategies.dlrover.history import FinishedJob, InitialPlan, Margins, check_history, initial_plan
from strategies.dlrover.plan import Limits, LimitSettings
from strategies.dlrover.planner import BrainPlanner
from strategies.parts.checks import PositiveInt
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import EachGate
from strategies.parts.scaling.fleet import Fleet
from strategies.parts.scaling.scaler import Scaler, ScalerSettings
from strategies.parts.scaling.usage import Given


@final
@dataclass(kw_only=True)
class DLRover(BrainTimes, RuleSettings, LimitSettings, ScalerSettings, Composition):
    """Starts with the job's nodes, samples what they use, plans servers, then workers, and adjusts both from then on.

    Source: Wang et al., "DLRover: an elastic deep training extension with auto job resource recommendation",
    arXiv:2304.01468, 2023: the Brain of sections 4.2 and 4.3, the rules of 5.4, and the seamless switch of 5.3.
    Training is ASP with dynamic shards; a worker's batch is that of the start whatever their number is, so updates grow
    with it.

    Departures: present workers get more or fewer cores in place (``Allocate``) where the paper starts other pods; see
    also :mod:`strategies.dlrover.adjust` and :mod:`strategies.dlrover.plan`.

    Attributes:
        worker_cores: what every worker has at the start.
        first_server_cores: what every server has at the start.
        seamless: workers train while new servers start; False: all stop first, and restart (native TensorFlow).
        history: finished jobs to begin from (hot start), the oldest first; none: cold.
        history_of: name of the workload, and of its data set, by which they are chosen.
    """

    worker_cores: PositiveInt = 16
    first_server_cores: PositiveInt = 16
    seamless: bool = True
    history: tuple[FinishedJob, ...] = ()
    history_of: tuple[str, str] = ("", "")

    watches_use = True

    def compose(self) -> Parts:
        """A gate for every gradient, and the Brain as the only action."""
        check_history(self.history, self.history_of)
        self._refuse_totals()
        limits = self.make(Limits)
        settings = self.make(BrainSettings, limits=limits, rules=self.make(Rules))
        fleet = self.make(
            Fleet,
            worker=Given(cores=self.worker_cores, memory_bytes=self.memory_bytes),
            server=Given(cores=self.first_server_cores, memory_bytes=self.memory_bytes),
        )
        requests = self.cores_as == "request"
        planner = BrainPlanner(settings, self._initial(limits), self.unit_cores, requests=requests)
        scaler = self.make(Scaler, planner=planner, fleet=fleet)
        return self.make(Parts, gate=EachGate(), actions={"brain": scaler})

    def _refuse_totals(self) -> None:
        """Raise ``ValueError`` for a total that neither the first nodes nor any plan can keep."""
        for worker, server in ((self.worker_cores, self.first_server_cores), (1, self.server_cores)):
            if worker + server > self.cores_total:
                raise ValueError(
                    f"cores_total={self.cores_total}: a worker of {worker} and a server of {server} cores need "
                    f"{worker + server}"
                )

    def _initial(self, limits: Limits) -> InitialPlan | None:
        return initial_plan(self.history, *self.history_of, limits, Margins()) if self.history else None
