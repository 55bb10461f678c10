"""What a score costs on the virtual clock, by the figures of the cost model."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from runtime.core.scoring import Products
from runtime.virtual.clock import Clock
from runtime.virtual.costs import Costs
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import sites_of
from runtime.virtual.tasks.host_servers import HostServers
from runtime.virtual.tasks.replicas import Replicas
from runtime.virtual.tasks.scorer import Scorer
from runtime.virtual.tasks.servers import ServerGroup, Servers
from tests.support.members import ring_of

COSTS = Costs(
    control_s=0.5,
    latency_s=1.0,
    transfer_per_byte_s=0.0625,
    compute_base_s=4.0,
    compute_per_sample_s=2.0,
    data_base_s=0.25,
    update_base_s=8.0,
    update_per_byte_s=0.125,
    evaluation_s=99.0,
)
FLOATS = 48
"""Of two servers: 16 and 32, so 64 and 128 bytes."""


class Parts:
    """A model state with nothing but numbers."""

    gone = False

    def compute_reference(self) -> None:
        pass

    def inner_products(self, grad_id: int, num_servers: int) -> list[Products]:
        return [] if self.gone else [Products(1.0, 2.0, float(server)) for server in range(num_servers)]


def scorer_of(kind: str, **fields: Any) -> tuple[Clock, ServerGroup, Scorer, list[Any]]:
    clock, heard = new_clock(), []  # type: tuple[Clock, list[Any]]
    sizes = (COSTS, FLOATS, 2, lambda target, t: (0.0, 0.0))
    servers: ServerGroup
    if kind == "hosts":
        servers = HostServers(ModelledMachines(clock, sites_of(None, COSTS, 1, 2), []), *sizes)
    else:
        servers = Servers(*sizes)
    scorer = Scorer(
        clock,
        COSTS,
        Parts(),  # type: ignore[arg-type]
        servers,
        samples=3,
        shares_memory=fields.get("shares_memory", False),
        tell=lambda given: heard.append((clock.now, *msgspec.structs.astuple(given)[:3])),
    )
    return clock, servers, scorer, heard


def run(clock: Clock) -> None:
    while clock.next_s < 1000.0:
        clock.step()


@pytest.mark.parametrize("kind", ["alone", "hosts"])
@pytest.mark.parametrize(("shares_memory", "travels"), [(False, 2), (True, 1)])
def test_a_reference_costs_two_messages_and_the_computation(kind: str, shares_memory: bool, travels: int) -> None:
    """Order 0.5, data 0.25, 3 samples 10, each message 1 + 192 / 16 = 13, and 0.5 until it is notified."""
    clock, _, scorer, heard = scorer_of(kind, shares_memory=shares_memory)
    scorer.compute_reference(7, 0.0)
    run(clock)
    assert heard == [(0.5 + 0.25 + 10.0 + 13.0 * travels + 0.5, 7)]


@pytest.mark.parametrize("kind", ["alone", "hosts"])
def test_a_score_is_a_pass_of_each_server_after_what_it_was_ordered_before(kind: str) -> None:
    """An update takes 8 + bytes / 8, a score bytes / 8: 64 and 128 bytes take 8 and 16 seconds."""
    clock, servers, scorer, heard = scorer_of(kind)
    servers.schedule_update(0.0, 1)
    scorer.inner_products(3, 0, 0.0)
    run(clock)
    parts = {server: now for now, server, _, _ in heard}
    assert parts == {0: 0.5 + (8.0 + 8.0) + 8.0 + 0.5, 1: 0.5 + (8.0 + 16.0) + 16.0 + 0.5}
    received = {about.server: (about.updates, about.busy_s) for about in servers.report()}
    assert received == {0: (1, 8.0 + 8.0 + 8.0), 1: (1, 8.0 + 16.0 + 16.0)}, "the time of a score is busy time"


@pytest.mark.parametrize("kind", ["alone", "hosts"])
def test_a_measured_norm_is_one_more_pass_after_its_update(kind: str) -> None:
    """Updates of one gradient take 8 + 64 / 8 and 8 + 128 / 8 seconds, the passes 8 and 16, the orders 0.5."""
    clock, servers, _, _ = scorer_of(kind)
    heard: list[float] = []
    servers.schedule_update(0.0, 1)
    for place in range(2):
        servers.measure(place, 0.0, heard.append)
    run(clock)
    assert sorted(heard) == [0.5 + 16.0 + 8.0, 0.5 + 24.0 + 16.0]
    assert servers.sizes == [16, 32]


def test_replicas_measure_the_sum_all_at_once() -> None:
    replicas, heard = Replicas(new_clock(), COSTS, FLOATS, ring_of(1)), list[float]()
    replicas.schedule_update(0.0, 1)
    replicas.measure(0, 0.0, heard.append)
    assert heard == [0.5 + 8.0 + 24.0 + 24.0]
    assert replicas.sizes == [FLOATS]
