"""Iterations and orders of servers on shared machines, without a coordinator: stages, snapshots, wrong orders.

One seed draws hosts, costs, devices, orders right and wrong, and what a plan and a recovery do to them.
"""

from __future__ import annotations

import gc
from math import inf
from random import Random
from typing import Any

import msgspec
import pytest

from runtime.cluster.device import DeviceProfile
from runtime.core.data.shards import Range
from runtime.core.inputs import GradientArrived
from runtime.core.job import ComputeOrder
from runtime.core.layout import Layout
from runtime.virtual.clock import MACHINE, MESSAGE, PLAN
from runtime.virtual.costs import Costs
from runtime.virtual.machines.kernel import kernel, new_clock, new_timeline
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import Site
from runtime.virtual.machines.tenancy import Tenancy
from runtime.virtual.tasks.host_servers import HostServers
from runtime.virtual.tasks.host_workers import HostWorkers
from runtime.virtual.tasks.iteration import Iteration
from runtime.virtual.tasks.model_state import NOTHING
from strategies.protocol import NodeId, Timings
from tests.support.kernel_snapshots import digest, stored

SEEDS = 120
END_S = 60.0
LATER_S = 17.3
"""No binary fraction: sums with it are rounded."""


class Chains:
    """Workers that compute again and again, and servers that update, on machines of a job or on shared ones.

    ``found`` is everything that is said and when.
    """

    def __init__(self, seed: int) -> None:
        timeline = new_timeline()
        self.random, self.found = Random(seed), list[tuple[object, ...]]()
        random = self.random
        self.coarse = random.random() < 0.4  # many ties
        shared = random.random() < 0.4
        self.clock = new_clock(timeline, LATER_S if shared and random.random() < 0.5 else 0.0)
        self.costs = self._costs()
        self.num_workers, self.num_servers = random.randint(1, 4), random.randint(1, 3)
        tasks = [f"worker:{number}" for number in range(self.num_workers)]
        tasks += [f"server:{number}" for number in range(self.num_servers)]
        hosts = [self._host(f"host:{number}") for number in range(random.randint(1, 4))]
        homes = {task: random.choice(hosts) for task in tasks}
        self.uses_cores = random.choice((1.0, 1.0, 2.0))
        self.machines: Any
        if shared:
            machines = ModelledMachines(new_clock(timeline), {}, others=hosts)
            self.machines = Tenancy("a job", self.clock, machines)
            self.machines.admit({task: site.name for task, site in homes.items()}, (), lambda task: self.uses_cores)
        else:
            self.machines = ModelledMachines(self.clock, homes, (), hosts, lambda task: self.uses_cores)
        self.tasks, self.hosts = tasks, [] if shared else [host.name for host in hosts]
        self.servers = HostServers(self.machines, self.costs, 64, self.num_servers, self._disturb)
        profiles = [self._profile() for _ in range(self.num_workers)]
        self.workers = HostWorkers(
            self.machines,
            self.costs,
            profiles,
            self.servers,
            uses_cores=self.uses_cores,
            shares_memory=random.random() < 0.2,
            seed=seed,
            arrived=self._arrived,
            tell=self._told if random.random() < 0.5 else None,
        )
        self.num_grads = 0

    def _some(self, low: float, high: float) -> float:
        drawn = self.random.uniform(low, high)
        return round(drawn * 64) / 64 if self.coarse else drawn

    def _perhaps(self, high: float) -> float:
        return self.random.choice((0.0, self._some(0.0, high)))

    def _costs(self) -> Costs:
        return Costs(
            compute_base_s=self._some(0.1, 1.0),
            compute_per_sample_s=self._perhaps(0.1),
            jitter_sigma=0.0 if self.coarse else 0.3,
            jitter_rho=self.random.choice((0.0, 0.5)),
            sleep_overshoot_s=self._perhaps(0.02),
            data_base_s=self._perhaps(0.1),
            data_per_sample_s=self._perhaps(0.02),
            control_s=self._perhaps(0.05),
            latency_s=self._perhaps(0.05),
            transfer_per_byte_s=self._perhaps(0.1) / 256,
            carry_per_byte_s=self._perhaps(0.3) / 256,
            carry_within_per_byte_s=self.random.choice((None, self._some(0.0, 0.3) / 256)),
            update_base_s=self._perhaps(0.1),
            update_per_byte_s=self._perhaps(0.1) / 256,
            checkpoint_base_s=self._perhaps(0.3),
            worker_cores=self.random.choice((1.0, 2.0)),
            server_cores=self.random.choice((1.0, 3.0)),
            stage_base_s=self._perhaps(0.1),
            interrupt_per_byte_s=self._perhaps(0.02) / 256,
        )

    def _host(self, name: str) -> Site:
        cores, rate = self.random.choice((inf, 0.5, 2.0)), self.random.choice((inf, 512.0, 2048.0))
        return Site(name, cores, rate, self.random.choice((0.0, 1 / 64)))

    def _profile(self) -> DeviceProfile | None:
        return self.random.choice((None, DeviceProfile(base_s=self._some(0.1, 2.0), per_sample_s=1 / 64)))

    def _disturb(self, task: str, t: float) -> tuple[float, float]:
        return (0.25, 0.5) if int(t) % 3 == 0 and task.endswith("0") else (0.0, 0.0)

    def _say(self, *about: object) -> None:
        self.found.append((*about, self.clock.now))

    def _arrived(self, iteration: Iteration, timings: Timings, at_s: float) -> None:
        order, result = iteration.order, iteration.result
        told = GradientArrived(order.grad_id, order.worker, timings, *result)
        self.clock.at(at_s + self.costs.control_s, MESSAGE, self._told, told)

    def _told(self, given: GradientArrived) -> None:
        parts = msgspec.structs.asdict(given.timings)
        assert not parts.pop("loader_s"), "a part that is younger than the digests"
        self._say("arrived", tuple(parts.values()), given.grad_id)
        self.servers.schedule_update(self.clock.now, self.random.randint(1, 3))
        if self.random.random() < 0.9:
            self._begin(given.worker)

    def _begin(self, worker: int) -> None:
        if worker in self.workers.under_way:
            return
        self.num_grads += 1
        samples, random = self.random.randint(1, 20), self.random
        order = ComputeOrder(
            grad_id=self.num_grads,
            worker=worker,
            incarnation=0,
            version=0,
            ranges=(Range(0, 0, 0, samples),),
            accum=random.choice((1, 1, 2)),
            delay_s=random.choice((0.0, 0.0, 0.5)),
            slowdown_frac=random.choice((0.0, 0.0, 1.0)),
        )
        self.workers.begin(order, NOTHING, self.clock.now + random.choice((0.0, 1 / 64)))

    def _window(self) -> None:
        random, kind = self.random, self.random.choice(("cpu", "pause", "bandwidth"))
        target = random.choice(self.tasks)
        if kind == "bandwidth":
            if not self.hosts:
                return
            target = f"link:{random.choice(self.hosts).removeprefix('host:')}"
        level = {"pause": 1.0, "bandwidth": 0.25, "cpu": random.choice((0.0, 0.25))}[kind]
        self.machines.change(target, kind, level)
        over_s = self.clock.now + self._some(0.1, 3.0)
        self.clock.at(over_s, PLAN, self.machines.change, target, kind, 0.0 if kind == "pause" else 1.0)

    def _lose(self) -> None:
        worker = self.random.randrange(self.num_workers)
        self.workers.lose(worker)
        ready_s = self.clock.now + self._some(0.0, 1.0)
        self.workers.ready(worker, ready_s)
        self.clock.at(ready_s, MESSAGE, self._begin, worker)

    def _halt(self) -> None:
        self.workers.lose_all()
        if self.random.random() < 0.5:
            shares = [(NodeId.server(number), self._some(1.0, 3.0)) for number in range(self.num_servers)]
            self.servers.divide(Layout.initial(self.num_workers, self.num_servers, [share for _, share in shares]))
        self.servers.halt()
        for worker in range(self.num_workers):
            self.workers.ready(worker, self.clock.now)
            self.clock.at(self.clock.now, MACHINE, self._begin, worker)

    def _store(self) -> None:
        self.servers.store(self.clock.now, lambda t: self._say("stored", t))

    def _score(self) -> None:
        self.servers.inner_products(0, self.clock.now, lambda t: self._say("scored", t))

    def _allocate(self) -> None:
        self.servers.allocate("server:0", self.random.choice((None, 0.5, 2.0)))
        self.workers.cores[0] = self.random.choice((0.5, 4.0))

    def _take(self) -> None:
        number = len(self.found)
        self.servers.take(0, lambda: self._say("taken", number))

    def _report(self) -> None:
        self._say("report", *self.servers.report())

    def _use(self) -> None:
        self._say("use", *(self.machines.core_seconds(task) for task in self.tasks))

    def run(self) -> list[tuple[object, ...]]:
        for worker in range(self.num_workers):
            self._begin(worker)
        acts = (self._window, self._window, self._lose, self._halt, self._store, self._score, self._allocate)
        acts += (self._take, self._report, self._use)
        for _ in range(self.random.randint(0, 25)):
            self.clock.at(self._some(0.0, 20.0), PLAN, self.random.choice(acts))
        timeline = self.clock.timeline
        while timeline.next_s < END_S:
            timeline.step()
        self._say("under way", *sorted(self.workers.under_way))
        return self.found


def test_iterations_and_orders_take_as_long_as_they_did() -> None:
    """Of rounded durations alone: the last bit of a random factor depends on the processor."""
    rounded = [chains for chains in map(Chains, range(SEEDS)) if chains.coarse]
    assert [digest(chains.run()) for chains in rounded] == stored()["chain"]


def test_nothing_is_kept() -> None:
    """Neither iterations that ended nor those of a job that is dropped in the middle."""
    for seed in range(10):
        chains = Chains(seed)
        for worker in range(chains.num_workers):
            chains._begin(worker)
        for _ in range(200):
            if chains.clock.timeline.next_s == inf:
                break
            chains.clock.timeline.step()
        kinds = {type(one).__name__ for one in chains.workers.under_way.values()}
        assert kinds <= {"Iteration"}
        del chains
    gc.collect()
    left = [one for one in gc.get_objects() if type(one).__module__ == type(new_clock()).__module__]
    assert [one for one in left if type(one).__name__ in ("Iteration", "Chain", "Queue", "Worker", "TaskWork")] == []


def test_wrong_orders_are_refused() -> None:
    chains = Chains(1)
    chain: Any = chains.workers.chain
    with pytest.raises(TypeError, match="begin"):
        chain.begin()
    with pytest.raises(KeyError):
        chain.begin(None, NOTHING, 99, 1, 1, 0.0, 0.0, 0.0)
    with pytest.raises(TypeError):
        chain.begin(None, NOTHING, 0, "many", 1, 0.0, 0.0, 0.0)
    with pytest.raises(TypeError, match="order_updates"):
        kernel().order_updates(None)
    with pytest.raises(TypeError, match="compiled queue"):
        kernel().order_updates([None], 0.0, 1, chains._disturb, 0.0)


STAGES = ("ordered", "waiting", "updating", "loading", "copying in", "computing")
STAGES += ("pacing", "delayed", "computed", "copying out", "pushing", "taken")


@pytest.mark.parametrize("stage", STAGES)
def test_what_python_carries_out_the_kernel_does_not(stage: str) -> None:
    """An iteration whose stage Python has taken over stays in it, until Python says what follows."""
    chains, entered = Chains(4), list[str]()

    def carry(iteration: Any) -> bool:
        entered.append(iteration.stage)
        return True

    about = {name: getattr(chains.workers, name) for name in ("costs", "jitter", "messages", "profiles", "cores")}
    about |= {name: getattr(chains.workers, name) for name in ("idle_since_s", "under_way", "model_bytes")}
    chains.workers._chain = kernel().Chain(
        work=chains.machines.task_work,
        clock=chains.clock,
        queues=chains.servers.queues,
        names=chains.workers._there,
        ended=chains.workers._end,
        timings=Timings,
        arrived=GradientArrived,
        copy_s=0.1,
        uses_cores=1.0,
        shares_memory=False,
        detours={stage: carry},
        **about,
    )
    chains._begin(0)
    while chains.clock.timeline.next_s < END_S:
        chains.clock.timeline.step()
    assert set(entered) <= {stage}
    if entered:
        assert [one.stage for one in chains.workers.under_way.values()] == [stage]  # type: ignore[attr-defined]
