"""Resources that a job's tasks need in a mode beyond SSGD, and requests for them (STAR, III and IV-D1; pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import final

from reading.ranges import Bool, Checked, NonNegativeFloat
from strategies.protocol import (
    AnyEvent,
    Arrived,
    Demand,
    Lost,
    NodeId,
    Observed,
    Ready,
    Reserve,
    Reserved,
    Restored,
    Started,
)
from strategies.star.modal import SSGD, Mode
from strategies.star.orders import order_intervals


@final
@dataclass(kw_only=True)
class Reserving:
    """Asks the cluster for the modes of one decision, the best first, until one is granted.

    SSGD needs nothing, so it is never asked for. If all are refused the present mode stays, with what it holds.

    Attributes:
        t: when was decided.
        modes: those that are better than the present one and were not asked for yet, the best first.
        mode_s: seconds per unit of progress of all modes.
        present: the mode until now.
        present_s: its seconds.
        updates_per_batch: updates of a global batch that make one unit of progress.
        updated: whether the event that led to the decision made an update.
        ready_s: when the decision is made.
    """

    t: float
    modes: list[Mode]
    mode_s: Mapping[Mode, float]
    present: Mode
    present_s: float
    updates_per_batch: float
    updated: bool
    ready_s: float

    def __post_init__(self) -> None:
        self.mode = self.modes.pop(0)
        """The mode that is asked for, or was granted."""
        self.refused: list[str] = []

    def asks(self, demands: ModeDemands, workers: Sequence[int], times_s: Sequence[float]) -> Reserve:
        """The question for the mode whose turn it is."""
        worth_s = (self.present_s - self.mode_s[self.mode]) / self.updates_per_batch
        return Reserve(demands=demands.of(self.mode, workers, times_s), worth_s=worth_s)

    def take_answer(self, event: Reserved) -> Mode | None:
        """The mode to take, the present one if all are refused; None: ask for the next."""
        if event.ok:
            return self.mode
        self.refused.append(f"{self.mode} ({event.reason})")
        if not self.modes:
            return self.present
        self.mode = self.modes.pop(0)
        return SSGD if self.mode == SSGD else None


SAMPLES = 20
"""Last samples of what servers use, over which is averaged ..."""
LEAST_SAMPLES = 4
"""... and the least, from the first gradient on: servers have nothing to do before."""


@dataclass(kw_only=True)
class DemandSettings:
    """Expectations about a mode's needs.

    Attributes:
        cpu_growth_frac: by which the processor time of a server grows in ASGD (STAR: 11 to 75 %; 43 % is the middle);
            None: as the gradients per second that are expected of the mode.
        link_growth_frac: by which what it sends per second does (STAR: 6 to 29 %); None: likewise.
        check_workers: see :class:`strategies.star.demands.ModeDemands`, as the next two; False is the ablation /W.
    """

    cpu_growth_frac: NonNegativeFloat | None = 0.43
    link_growth_frac: NonNegativeFloat | None = 0.18
    check_workers: Bool = True


@final
@dataclass(kw_only=True)
class ModeDemands(Checked, DemandSettings):
    """Demands of a mode, from the measured use of servers and workers in SSGD.

    A server uses ``growth`` more in ASGD than in SSGD, and in a mode whose updates have y of N gradients the part
    1 - (y - 1) / (N - 1) of that. It sends the parameters with every gradient. A worker uses no more while it computes,
    but waits less: its average use grows.
    """

    def reset(self, started: Started) -> None:
        """A job begins: nothing was measured."""
        self._servers = [NodeId.server(number) for number in range(started.num_servers)]
        self._model_bytes = float(started.model_bytes or 0)
        self._cores: dict[str, deque[float]] = {}
        self._cpu_s: dict[int, float] = {}
        self._begun = False

    def observe(self, event: AnyEvent, *, synchronous: bool) -> None:
        """Measure; servers while updates are ``synchronous`` rounds of all."""
        self._begun |= isinstance(event, Arrived)
        match event:
            case Arrived(grad=grad, timings=timings) | Ready(grad=grad, timings=timings) if (
                grad.samples and timings.cpu_s is not None
            ):
                self._cpu_s[grad.worker] = timings.cpu_s
            case Observed() if synchronous and self._begun:
                for use in event.nodes:
                    if use.cpu_cores is not None:
                        self._cores.setdefault(use.node, deque(maxlen=SAMPLES)).append(use.cpu_cores)
            case Lost(restarting=False):
                self._cpu_s.pop(event.worker, None)
            case Restored(servers=servers) if servers:
                self._servers = [NodeId.server(number) for number in servers]

    @property
    def is_known(self) -> bool:
        """Whether every server was measured: before, nothing can be asked for."""
        return all(len(self._cores.get(str(server), ())) >= LEAST_SAMPLES for server in self._servers)

    def of(self, mode: Mode, workers: Sequence[int], times_s: Sequence[float]) -> tuple[Demand, ...]:
        """The mode's needs on servers and workers; each worker takes its predicted ``times_s`` for an iteration."""
        cycles_s = mode_cycles_s(mode, workers, times_s)
        round_s = max(times_s)
        rate, before = sum(1.0 / cycle_s for cycle_s in cycles_s.values()), len(workers) / round_s
        part = growth_part(mode, len(workers))
        cpu, link = (
            max(0.0, rate / before - 1.0) if growth is None else growth * part
            for growth in (self.cpu_growth_frac, self.link_growth_frac)
        )
        sends = before * self._model_bytes / max(1, len(self._servers))
        found = [
            Demand(node=str(server), cpu_cores=cpu * fmean(self._cores[str(server)]), link_bytes_per_s=link * sends)
            for server in self._servers
        ]
        if self.check_workers:
            more = {worker: max(0.0, 1.0 / cycle_s - 1.0 / round_s) for worker, cycle_s in cycles_s.items()}
            found += [
                Demand(
                    node=str(NodeId.worker(worker)),
                    cpu_cores=per_s * self._cpu_s.get(worker, 0.0),
                    link_bytes_per_s=per_s * self._model_bytes,
                )
                for worker, per_s in more.items()
            ]
        return tuple(demand for demand in found if demand.cpu_cores or demand.link_bytes_per_s)


def growth_part(mode: Mode, count: int) -> float:
    """1 - (y - 1) / (N - 1): which part of ASGD's growth a mode has, whose updates have y of N gradients on average."""
    if count < 2:
        return 0.0
    reports = count / len(mode.groups) if mode.groups else count if mode.x is None else min(mode.x, count)
    return 1.0 - (reports - 1.0) / (count - 1.0)


def mode_cycles_s(mode: Mode, workers: Sequence[int], times_s: Sequence[float]) -> Mapping[int, float]:
    """Seconds from one gradient of a worker to its next, by worker: its own time and its waiting."""
    own_s = dict(zip(workers, times_s, strict=True))
    if mode.groups is not None:
        slowest_s = {
            worker: max(own_s[one] for one in group if one in own_s) for group in mode.groups for worker in group
        }
        return {worker: slowest_s.get(worker, time_s) for worker, time_s in own_s.items()}
    if mode.x is None or mode.x >= len(own_s):
        return dict.fromkeys(own_s, max(times_s))
    if mode.x == 1:
        return own_s
    (interval,) = order_intervals(times_s, [mode.x])
    mean_s = interval[0] * len(own_s) / mode.x
    return {worker: max(time_s, mean_s) for worker, time_s in own_s.items()}
