"""Workers and servers on shared machines: iterations by worked numbers, and the plain ones where nothing is shared."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from injectors.plan import Disturbance, Kind, build_plan
from injectors.schedule import Schedule
from runtime.cluster.device import DeviceProfile
from runtime.virtual.clock import PLAN
from runtime.virtual.costs import Costs
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import Site
from runtime.virtual.tasks.host_servers import HostServers
from runtime.virtual.tasks.host_workers import HostWorkers
from runtime.virtual.tasks.jitter import Jitter
from runtime.virtual.tasks.model_state import NoModelState
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.protocol import Strategy
from tests.support.labs import run_alone
from tests.support.worker_model import WorkerModel
from tests.unit.virtual.test_virtual_machines import COSTS, DEVICE, PARTS, PlainModel, approx, fields
from tests.unit.virtual.test_virtual_session import Tape, session, virtual_job

pytestmark = pytest.mark.usefixtures("even_quotas")
Change = tuple[float, str, Kind, float]


def calm(target: str, t: float) -> tuple[float, float]:
    return 0.0, 0.0


class HostModel(WorkerModel):
    """Workers of 16 parameters and one server, each on a host of so many cores."""

    def __init__(
        self,
        *changes: Change,
        costs: Costs = COSTS,
        cores: float = 1.0,
        server_cores: float = math.inf,
        profile: DeviceProfile | None = DEVICE,
        default: DeviceProfile | None = None,
        shares_memory: bool = False,
        together: bool = False,
        link: float = math.inf,
        cuts: bool = False,
    ) -> None:
        super().__init__()
        first = Site("host:0", cores, link)
        sites = {"worker:0": first, "worker:1": first if together else Site("host:1", cores, link)}
        sites["server:0"] = Site("host:2", server_cores, link)
        self.machines = ModelledMachines(self.clock, sites)
        self.servers = HostServers(self.machines, costs, 16, 1, calm)
        self.workers = HostWorkers(
            self.machines,
            costs,
            [profile] * 2,
            self.servers,
            default=default,
            cuts=cuts,
            shares_memory=shares_memory,
            seed=0,
            arrived=self._arrived,
        )
        for t, *change in changes:
            self.clock.at(t, PLAN, self.machines.change, *change)


REAL = Costs(compute_base_s=0.1, compute_per_sample_s=0.005)
"""20 samples: 0.2 core-seconds, and nothing else costs anything."""


def test_an_undisturbed_iteration_is_that_of_a_machine_of_its_own() -> None:
    """But for its one thread: the parameters, there at 1.0136, are copied (6.4 ms) after the batch is loaded."""
    model = HostModel()
    model.begin(1.0)
    received, at_s = model.only()
    assert fields(received) == approx(wait_s=1.01, data_s=0.025, pull_s=0.0064, compute_s=0.201, send_s=0.01)
    assert at_s == pytest.approx(1.2524)


@pytest.mark.parametrize(
    ("cores", "compute_s", "overrun_s"), [(1.0, 0.201, 0.0), (0.25, 0.201, 0.0), (0.125, 0.4, 0.2), (0.0625, 0.8, 0.6)]
)
def test_a_device_hides_a_throttled_processor_until_it_cannot(cores: float, compute_s: float, overrun_s: float) -> None:
    """0.05 core-seconds within 0.2 s of a device, which is overslept by 1 ms."""
    costs = Costs(compute_base_s=0.05, sleep_overshoot_s=0.001)
    model = HostModel(costs=costs, cores=cores)
    model.begin(0.0)
    received, _ = model.only()
    assert (received.compute_s, received.overrun_s) == (pytest.approx(compute_s), pytest.approx(overrun_s))


SECONDS = st.floats(0, 10)
COSTLY = st.builds(Costs, control_s=SECONDS, latency_s=SECONDS, data_base_s=SECONDS, update_base_s=SECONDS)


@given(
    costs=COSTLY,
    update_s=SECONDS,
    delay_s=SECONDS,
    shares_memory=st.booleans(),
    link=st.sampled_from([math.inf, 10.0, 1e6]),
    pause=st.none() | st.tuples(SECONDS, SECONDS),
)
def test_the_parts_make_up_the_whole(
    costs: Costs, update_s: float, delay_s: float, shares_memory: bool, link: float, pause: tuple[float, float] | None
) -> None:
    """From the end of the push before to the end of this one, whatever happens; without hosts nobody pauses."""
    model: Any
    if pause is None:
        limit = None if link == math.inf else link
        model = PlainModel(costs, shares_memory=shares_memory, link_bytes_per_s=limit)
    else:
        changes: list[Change] = [(pause[0], "worker:0", "pause", 1.0), (sum(pause), "worker:0", "pause", 0.0)]
        model = HostModel(*changes, costs=costs, shares_memory=shares_memory, link=link)
    model.begin(1.0)
    model.servers.schedule_update(update_s, 1)
    first, first_s = model.only()
    model.begin(max(model.clock.now, first_s) + 1.0, delay_s=delay_s)
    _, (_, second, second_s) = model.run()
    assert sum(getattr(first, part) for part in PARTS) == pytest.approx(first_s)
    assert sum(getattr(second, part) for part in PARTS) == pytest.approx(second_s - first_s)
    assert min(getattr(received, part) for received in (first, second) for part in PARTS) >= 0.0


LATER = 1e5
STRATEGIES = {"bsp": BSP(), "asp": ASP(data="even"), "ssp": SSP(bound=1)}
JITTERED = Costs(
    compute_base_s=0.5,
    compute_per_sample_s=0.1,
    jitter_sigma=0.2,
    jitter_rho=0.5,
    sleep_overshoot_s=0.01,
    data_base_s=0.01,
    control_s=0.003,
    latency_s=0.02,
    transfer_per_byte_s=1e-4,
    update_base_s=0.02,
)


def pausing_later() -> Schedule:
    """A plan that disturbs nothing while anything happens, but for which machines have to be modelled."""
    window = Disturbance(start_s=LATER, end_s=LATER + 1, target="worker:0", kind="pause", magnitude=1)
    return Schedule(build_plan("later", 0, LATER + 2, [window]))


def play(strategy: Strategy, costs: Costs, schedule: Schedule, profile: DeviceProfile | None, transport: str) -> Tape:
    about: Any = {"actuator": schedule, "model_state": NoModelState(64, None), "spec": {"transport": transport}}
    run, tape = session(strategy, virtual_job(3, 90), costs, device=profile, **about)
    run_alone(run)
    return tape


@pytest.mark.few(8)
@pytest.mark.parametrize("transport", ["tcp", "shm"])
@pytest.mark.parametrize("link_bytes_per_s", [None, 2e3])
@pytest.mark.parametrize("profile", [None, DeviceProfile(base_s=0.55)], ids=["real", "paced"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_on_machines_of_their_own_all_take_as_long_as_ever(
    name: str, profile: DeviceProfile | None, link_bytes_per_s: float | None, transport: str
) -> None:
    """With one server and updates that take no time: a queue knows of an order only when that has come to it."""
    costs = msgspec.structs.replace(JITTERED, link_bytes_per_s=link_bytes_per_s, update_base_s=0.0)
    calm_schedule = Schedule(build_plan("none", 0, 1.0, []))
    tapes = [play(STRATEGIES[name], costs, one, profile, transport) for one in (calm_schedule, pausing_later())]
    plain, shared = ([line for line in tape.plain() if line["kind"] == "event"] for tape in tapes)
    assert [line["commands"] for line in plain] == [line["commands"] for line in shared]
    assert [line["t"] for line in plain] == pytest.approx([line["t"] for line in shared])
    for one, other in zip(plain, shared, strict=True):
        times, on_machines = one["event"].get("timings", {}), other["event"].get("timings", {})
        known = {"cpu_s": on_machines["cpu_s"]} if on_machines else {}  # only machines have processors
        assert times | known == pytest.approx(on_machines, abs=1e-9)


@pytest.mark.parametrize(("cores", "end_s"), [(0.0, 3.0), (0.25, 2 + 1 / 0.75), (1.0, 4.0), (96.0, 4.0)])
def test_a_server_polls_between_its_updates(cores: float, end_s: float) -> None:
    """Update and neighbour share one core until 2 s; then the neighbour has another core-second to do."""
    clock, site = new_clock(), Site("host:0", 1.0)
    machines = ModelledMachines(clock, {"worker:0": site, "server:0": site})
    servers = HostServers(machines, Costs(update_base_s=1.0, server_wait_cores=cores), 16, 1, calm)
    servers.schedule_update(0.0, 1)
    ended: list[float] = []
    machines.work("worker:0", 2.0, lambda: ended.append(clock.now))
    while not ended:
        clock.step()
    assert ended == [pytest.approx(end_s)]
    assert machines.core_seconds("server:0") == pytest.approx(1.0 + min(cores, 0.5) * (end_s - 2.0))
    servers.schedule_update(clock.now, 1)  # for which it does not poll
    clock.at(end_s + 1.0, PLAN, servers.halt)
    while clock.now < end_s + 1.0:
        clock.step()
    done_s = machines.core_seconds("server:0")
    assert done_s == pytest.approx(2.0 + min(cores, 0.5) * (end_s - 2.0))
    machines.work("worker:0", 1.0, lambda: ended.append(clock.now))
    while len(ended) < 2:
        clock.step()
    assert (ended[1] - end_s, machines.core_seconds("server:0")) == (pytest.approx(2.0), done_s)  # no more, once halted


@pytest.mark.parametrize("carry_per_byte_s", [0.0, 1 / 32])
def test_messages_vary_by_one_factor_each_way(carry_per_byte_s: float) -> None:
    """64 bytes at 64 bytes per second, or 2 core-seconds at either end; the gradient has a factor of its own."""
    costs = msgspec.structs.replace(REAL, message_sigma=0.5, carry_per_byte_s=carry_per_byte_s)
    model = HostModel(costs=costs, profile=None, link=64.0)
    model.begin(0.0)
    timings, _ = model.only()
    stream = Jitter(0, 0, 0.5, 0.0, of="messages")
    longest_s = max(1.0, 64 * carry_per_byte_s)
    assert timings.pull_s == pytest.approx(stream.factor() * longest_s)
    assert timings.send_s == pytest.approx(stream.factor() * longest_s)
