"""Servers, workers and links on the virtual clock, by worked numbers: who waits for what, and for how long."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from runtime.cluster.device import DeviceProfile
from runtime.virtual.clock import MACHINE
from runtime.virtual.costs import Costs
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.network import Network
from runtime.virtual.tasks.servers import Servers
from runtime.virtual.tasks.workers import Workers
from strategies.protocol import Timings
from tests.support.worker_model import WorkerModel

PARTS = ("wait_s", "data_s", "pull_s", "compute_s", "send_s")
MB = 1_000_000
GIGABIT = 125e6  # bytes per second


def calm(target: str, t: float) -> tuple[float, float]:
    return 0.0, 0.0


def test_a_straggling_server_is_slow_in_the_window() -> None:
    """0.5 s and twice its own 22.8 ms, 3 ms overslept; asked about when the order left."""
    asked = []

    def disturb(target: str, t: float) -> tuple[float, float]:
        asked.append((target, t))
        return (0.5, 2.0) if target == "server:1" and t < 0.5 else (0.0, 0.0)

    costs = Costs(control_s=0.001, update_base_s=0.01, update_per_byte_s=1e-4, sleep_overshoot_s=0.003)
    servers = Servers(costs, 32, 2, disturb)
    servers.schedule_update(0.25, 2)
    assert servers.free_s == pytest.approx([0.2738, 0.2738 + 0.5486])
    servers.schedule_update(0.75, 2)
    assert servers.free_s == pytest.approx([0.7738, 0.8224 + 0.0228])
    assert asked == [("server:0", 0.25), ("server:1", 0.25), ("server:0", 0.75), ("server:1", 0.75)]
    first, second = servers.report()
    assert first._asdict() == pytest.approx({"server": 0, "updates": 2, "busy_s": 0.0456, "injected_s": 0.0})
    assert second._asdict() == pytest.approx({"server": 1, "updates": 2, "busy_s": 0.5942, "injected_s": 0.5486})
    assert servers.report() == [], "what was reported is not reported again"


COSTS = Costs(
    control_s=0.01,
    latency_s=0.0036,
    transfer_per_byte_s=1e-4,
    data_base_s=0.005,
    data_per_sample_s=0.001,
    sleep_overshoot_s=0.001,
    update_base_s=0.4,
)
"""A message of 64 bytes takes 10 ms, a batch of 20 samples 25 ms to load, an update 400 ms."""
DEVICE = DeviceProfile(base_s=0.1, per_sample_s=0.005)
"""20 samples: 0.2 s, and 1 ms overslept."""


class PlainModel(WorkerModel):
    """Workers of 16 parameters without hosts."""

    def __init__(
        self,
        costs: Costs = COSTS,
        profile: DeviceProfile | None = DEVICE,
        *,
        shares_memory: bool = False,
        link_bytes_per_s: float | None = None,
        num_workers: int = 1,
        num_parameters: int = 16,
    ) -> None:
        super().__init__()
        self.servers = Servers(costs, num_parameters, 1, calm)
        self.network = None
        if link_bytes_per_s is not None:
            self.network = Network(self.clock, link_bytes_per_s, num_workers, 1)
        about: dict[str, Any] = {"shares_memory": shares_memory, "seed": 0, "arrived": self._arrived}
        self.workers = Workers(self.clock, costs, (profile,) * num_workers, self.servers, self.network, **about)


def approx(**given: float) -> Any:
    return pytest.approx(given)


def fields(timings: Timings) -> dict[str, float]:
    """Those that are not zero."""
    every = (*PARTS, "injected_s", "overrun_s")
    return {name: value for name in every if (value := getattr(timings, name))}


def test_parameters_wait_for_the_update_before_them() -> None:
    """The update, ordered with the Compute, is done at 1.41 and delivered at 1.42, 0.385 s after the batch."""
    model = PlainModel()
    model.servers.schedule_update(1.0, 1)
    model.begin(1.0)
    timings, at_s = model.only()
    assert fields(timings) == approx(wait_s=1.01, data_s=0.025, pull_s=0.385, compute_s=0.201, send_s=0.01)
    assert at_s == pytest.approx(1.631)


def ends(starts: list[tuple[float, str, int]], num_servers: int = 1) -> Any:
    """When transfers of 4 MB end that start as (time, way, worker)."""
    clock, found = new_clock(), {}  # type: Clock, dict[tuple[str, int], float]
    network = Network(clock, GIGABIT, 4, num_servers)

    def start(key: tuple[str, int]) -> None:
        network.transfer(key, 4 * MB, lambda: found.update({key: clock.now}))

    for start_s, way, worker in starts:
        clock.at(start_s, MACHINE, start, (way, worker))
    while clock.next_s < math.inf:
        clock.step()
    return pytest.approx(found)


def test_four_megabytes_at_a_gigabit() -> None:
    """Alone 32 ms, at the sender's rate; four at once share the server's link: 128 ms; two servers: 64 ms."""
    four = [(1.0, "push", worker) for worker in range(4)]
    assert ends(four[:1]) == {("push", 0): 1.032}
    assert ends(four) == {("push", worker): 1.128 for worker in range(4)}
    assert ends(four, num_servers=2) == {("push", worker): 1.064 for worker in range(4)}
    assert ends(four, num_servers=8) == {("push", worker): 1.032 for worker in range(4)}


BEFORE_PULL, PULL, COMPUTE = (1.0, 1.2), (1.412, 1.45), (1.5, 1.6)


def assert_void(model: Any, lost_s: float) -> None:
    """Worker 1 is lost and there again at once; what its two incarnations do is not mixed up."""
    for worker in range(2):
        model.begin(1.0, worker)

    def again() -> None:
        model.workers.lose(1)
        model.workers.ready(1, lost_s)
        model.begin(lost_s, 1)

    model.clock.at(lost_s, MACHINE, again)
    (first, _, _), (second, timings, at_s) = model.run()
    assert (first, second) == (0, 1)
    assert timings.wait_s == pytest.approx(0.01)
    assert sum(getattr(timings, part) for part in PARTS) == pytest.approx(at_s - lost_s)


@pytest.mark.parametrize(
    ("link_bytes_per_s", "lost_s"),
    [(None, at) for at in (*BEFORE_PULL, 1.412, *COMPUTE, 1.617)]
    + [(GIGABIT, at) for at in (*BEFORE_PULL, *PULL, *COMPUTE, 1.7, 1.745)],
)
def test_what_a_lost_worker_did_is_void(link_bytes_per_s: float | None, lost_s: float) -> None:
    """In whatever phase it is lost, its next incarnation, there at once, is not mistaken for it."""
    costs = msgspec.structs.replace(COSTS, transfer_per_byte_s=0.0)
    model = PlainModel(costs, num_workers=2, num_parameters=MB, link_bytes_per_s=link_bytes_per_s)
    model.servers.schedule_update(1.0, 1)
    assert_void(model, lost_s)
