"""Jobs without gradients on the same two hosts, in a lab with a policy of prevention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.cluster.hosts import parse_hosts
from runtime.virtual.clock import Clock
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.lab import VirtualLab
from runtime.virtual.machines.sites import sites_of_hosts
from runtime.virtual.machines.tenancy import Tenancy
from runtime.virtual.tasks.model_state import NoModelState
from strategies.basic.bsp import BSP
from strategies.protocol import Prevention, Reserve, Started, Stop, Strategy, Wake, Woke
from tests.support.harness import make_job, make_run_spec
from tests.unit.virtual.test_virtual_session import Tape

COSTS = Costs(compute_base_s=0.1)
HOSTS = [["server:0", "worker:0"], ["worker:1"]]


class Saying(Strategy):
    """BSP that in addition gives commands at times of its own."""

    needs = BSP().needs | {Reserve, Wake, Stop}

    def __init__(self, commands: Mapping[float, Any]) -> None:
        self.bsp, self.commands = BSP(), dict(commands)

    def waiting_groups(self) -> Sequence[Sequence[int]]:
        return self.bsp.waiting_groups()

    def handle(self, event: Any) -> Sequence[Any]:
        said = list(self.bsp.handle(event))
        if isinstance(event, Started):
            said += [Wake(at_s=at_s, tag=f"say {at_s}") for at_s in self.commands]
        if isinstance(event, Woke) and event.tag.startswith("say "):
            said.append(self.commands[float(event.tag.removeprefix("say "))])
        return said


class NeighbourTape(Tape):
    """A record with what workers did."""

    def computing(self, node: str) -> list[tuple[float, float]]:
        """(end, seconds of computing) of every iteration of a worker."""
        events = [event for event in self.received("Arrived") if f"worker:{event['grad']['worker']}" == node]
        return [(event["t"], event["timings"]["compute_s"]) for event in events]


class Neighbours:
    """Two hosts with ``cores`` each; ``costs`` are those of every job that has no own."""

    def __init__(self, *, prevention: Prevention | None = None, cores: float = 2.0, costs: Costs = COSTS) -> None:
        self.cores, self.costs = cores, costs
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.tapes: dict[str, NeighbourTape] = {}
        sites = sites_of_hosts(self._hosts(HOSTS, 2), costs)
        self.lab = VirtualLab(sites, None, prevention, lambda kind, **fields: self.notes.append((kind, fields)))

    def _hosts(self, placement: list[list[str]], num_workers: int) -> Any:
        about = {"count": 2, "cpu_cores": self.cores, "link_mbps": 1000.0, "placement": placement}
        return parse_hosts(about, num_workers, 1)

    def add(
        self,
        name: str,
        strategy: Strategy,
        *,
        placement: list[list[str]] | None = None,
        num_workers: int = 2,
        max_time_s: float = 6.0,
        slow: Mapping[int, float] | None = None,
        costs: Costs | None = None,
        num_parameters: int = 0,
        seed: int = 0,
        model: str = "",
        batch_samples: int = 1,
    ) -> None:
        """A job; ``slow``: by which part workers take longer, by worker."""
        job = make_job(
            num_workers=num_workers,
            num_samples=10**6,
            global_batch_samples=num_workers * batch_samples,
            max_time_s=max_time_s,
            seed=seed,
        )
        tape = self.tapes[name] = NeighbourTape()
        spec = make_run_spec(job, strategy, tape)
        windows = [
            Disturbance(start_s=0.0, end_s=1e6, target=f"worker:{worker}", kind="slowdown", magnitude=part)
            for worker, part in (slow or {}).items()
        ]
        schedule = Schedule(build_plan("test", seed, 1e6, windows))
        hosts = self._hosts(placement or HOSTS, num_workers)

        def make(clock: Clock, tenancy: Tenancy | None) -> VirtualSession:
            return VirtualSession(
                spec,
                schedule,
                NoModelState(num_parameters, None),
                costs or self.costs,
                None,
                hosts=hosts,
                clock=clock,
                tenancy=tenancy,
                telemetry_every_s=0.5 if strategy.watches_use else None,
            )

        self.lab.add(name, make, model=model)

    def run(self) -> dict[str, Outcome]:
        """All jobs to their end."""
        return self.lab.run()
