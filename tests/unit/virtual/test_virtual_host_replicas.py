"""Replicas on hosts: as without hosts where nothing is shared, and what they share where something is."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.cluster.device import DeviceProfile
from runtime.cluster.hosts import parse_hosts
from runtime.core.job import ApplyOrder, FragmentOrder, PushOrder
from runtime.virtual.clock import MACHINE, MESSAGE
from runtime.virtual.costs import Costs
from runtime.virtual.machines.interface import Then
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import Site
from runtime.virtual.tasks.host_replicas import HostReplicas
from strategies.ad_psgd import ADPSGD
from strategies.basic.bsp import BSP
from strategies.eager_sgd import EagerSGD
from strategies.protocol import NodeId
from tests.support.members import ring_of
from tests.support.virtual_runs import lose
from tests.unit.virtual.test_virtual_children import ring_of_three
from tests.unit.virtual.test_virtual_replicas import PARAMETERS, allreduce_job, session
from tests.unit.virtual.test_virtual_session import finish, uses

pytestmark = pytest.mark.usefixtures("even_quotas")
FREE = Costs()


class Group:
    """Replicas, each on a host with a link of 1024 bytes a second."""

    def __init__(self, num_workers: int = 4, costs: Costs = FREE, parameters: int = PARAMETERS) -> None:
        self.clock = new_clock()
        sites = {f"worker:{worker}": Site(f"host:{worker}", 1.0, 1024.0) for worker in range(num_workers)}
        self.machines = ModelledMachines(self.clock, sites)
        self.replicas = HostReplicas(self.machines, costs, parameters, ring_of(num_workers))
        self.free_s: dict[int, float] = {}

    def watch(self, *workers: int) -> None:
        """Note when each of these has done its orders so far."""
        for worker in workers:
            self.replicas.enqueue(worker, partial(self._free, worker))

    def _free(self, worker: int, done: Then) -> None:
        self.free_s[worker] = self.clock.now
        done()

    def run(self) -> None:
        while self.clock.next_s < 1000.0:
            self.clock.step()


RING_S = 6 * 64 / 1024


def test_a_replica_that_still_computes_comes_late_to_the_ring() -> None:
    """As live, where an order waits for the one before."""
    group = Group()
    group.replicas.enqueue(2, lambda done: group.machines.sleep("worker:2", 1.0, done))
    group.replicas.schedule_update(0.0, 4)
    group.clock.at(0.5, MACHINE, group.watch, *range(4))
    group.run()
    assert max(group.free_s.values()) == pytest.approx(1.0 + RING_S)
    assert min(group.free_s.values()) > 1.0


def test_groups_average_at_the_same_time_and_a_late_member_delays_its_own() -> None:
    """Two messages of half of 256 bytes for each group. Worker 2 comes to its order a second late."""
    group = Group()
    group.replicas.enqueue(2, lambda done: group.machines.sleep("worker:2", 1.0, done))
    group.replicas.average((0, 3), 0.0)
    group.replicas.average((1, 2), 0.0)
    group.clock.at(0.0, MESSAGE, group.watch, *range(4))
    group.run()
    ring_s = 2 * 128 / 1024
    assert [group.free_s[worker] for worker in (0, 3)] == pytest.approx([ring_s] * 2)
    assert max(group.free_s[worker] for worker in (1, 2)) == pytest.approx(1.0 + ring_s)
    assert not group.replicas.lacks(0.0), "no update is under way"


def test_a_half_is_a_message_of_the_whole_vector_and_waits_for_both_ends() -> None:
    """256 bytes. Worker 2 comes to its order a second late, and to worker 3's half after that; adding is free here."""
    group = Group()
    group.replicas.enqueue(2, lambda done: group.machines.sleep("worker:2", 1.0, done))
    group.replicas.push_half(PushOrder(worker=0, to=1, adds=()), 0.0)
    group.replicas.push_half(PushOrder(worker=3, to=2, adds=()), 0.0)
    group.replicas.push_half(PushOrder(worker=2, to=None, adds=(3,)), 0.0)
    group.clock.at(0.0, MESSAGE, group.watch, *range(4))
    group.run()
    hop_s = 256 / 1024
    expected = {0: hop_s, 1: hop_s, 2: 1.0 + hop_s, 3: 1.0 + hop_s}
    assert group.free_s == pytest.approx(expected)


def test_a_sum_of_a_fragment_sends_its_part() -> None:
    """Six messages of a quarter of half of 512 bytes. Who mixes steps half of the vector then."""
    group = Group(costs=Costs(update_per_byte_s=1 / 1024), parameters=2 * PARAMETERS)
    about = {"fragment": 0, "of": 2, "samples": 4, "lr": 1.0, "kept_frac": 0.0}
    group.replicas.sum_fragment(FragmentOrder(offer=(1,), moves=((0, 1.0),), mix=(0,), **about), 0.0)
    group.clock.at(0.0, MESSAGE, group.watch, *range(4))
    group.run()
    summed_s, half_step_s = RING_S, 256 / 1024
    mixed_s = {worker: summed_s + half_step_s * (2 - (worker > 0)) for worker in range(4)}
    assert group.free_s == pytest.approx(mixed_s)


@pytest.mark.parametrize("returning", [(), ((3, 0),)])
def test_a_child_is_not_in_the_ring_and_copies_the_state_when_it_enters(returning: tuple[tuple[int, int], ...]) -> None:
    """768 bytes in a ring of three, four messages of a third; then all of them from worker 0 to worker 3."""
    group = Group(parameters=192)
    order = ApplyOrder(version=1, grads=(0,), weights=(1.0,), lr=1.0, samples=1, excluded=(3,), returning=returning)
    group.replicas.carry_out(order, 0.0)
    group.clock.at(0.0, MESSAGE, group.watch, *range(4))
    group.run()
    copied_s = 4 * 256 / 1024 + 768 / 1024
    assert [group.free_s[worker] for worker in (1, 2)] == [pytest.approx(4 * 256 / 1024)] * 2
    expected = [copied_s, copied_s] if returning else [4 * 256 / 1024, 0.0]
    assert [group.free_s[worker] for worker in (0, 3)] == pytest.approx(expected)


def test_a_parent_that_is_lost_while_an_order_is_on_its_way_does_not_carry_it_out() -> None:
    """Worker 0 is to send worker 3, its child, the parameters: the order of 3.0 s would reach it at 3.125 s.

    It has left its host by then. Who carried it out was halted by the next loss, when the host no longer knew it.
    """
    devices = [DeviceProfile(base_s=base_s) for base_s in (0.25, 0.25, 0.25, 0.5)]
    costs = Costs(control_s=1 / 8)
    run, tape = session(
        ring_of_three(), allreduce_job(), costs, devices, hosts=parse_hosts({"count": 4}, 4, 0), learns=True
    )
    for at_s, worker in ((3.0625, 0), (4.0, 1)):
        run.clock.at(at_s, MESSAGE, partial(lose, run.supervisor, NodeId.worker(worker), restarting=False))
    finish(run, tape)
    [given] = [line for line in tape.plain() if line["t"] == 3.0 and line.get("commands")]
    assert [command["children"] for command in given["commands"] if command["type"] == "Apply"] == [[[3, 0]]]
    assert 3 in [command.get("worker") for command in given["commands"]], "the order that was on its way"
    assert [event["workers"] for event in tape.received("Restored")] == [[1, 2, 3], [2, 3]]
    assert uses(run) == {1.0}


@pytest.mark.parametrize("hosts", [None, 3])
def test_a_replica_that_computes_holds_up_no_sum_if_a_thread_of_its_own_does(hosts: int | None) -> None:
    """Worker 2 takes 2 s, others a quarter: of 24 samples, those have one each in a sum every quarter of a second.

    A sum begins with the first of them, and the other one's gradient, which arrives at the same time, is in the next.
    """
    devices = [DeviceProfile(base_s=base_s) for base_s in (0.25, 0.25, 2.0)]
    about = {} if hosts is None else {"hosts": parse_hosts({"count": hosts}, 3, 0)}
    run, tape = session(EagerSGD(mode="solo"), allreduce_job(3, 24), FREE, devices, parameters=0, **about)
    finish(run, tape)
    assert tape.update_times()[:7] == [0.25 * number for number in range(1, 8)]
    late = [grad for grad in tape.received("Arrived") if grad["grad"]["worker"] == 2]
    assert [(one["t"], one["grad"]["version"]) for one in late][:1] == [(2.0, 0)]


PAUSE_LATER = Schedule(
    build_plan("test", 0, 1e6, [Disturbance(target="worker:0", start_s=1e5, end_s=2e5, kind="pause", magnitude=1.0)])
)
"""Work in progress may be disturbed, so machines are modelled."""


@pytest.mark.parametrize("about", [{}, {"actuator": PAUSE_LATER}, {"hosts": 2}], ids=["alone", "machines", "hosts"])
@pytest.mark.parametrize(
    ("step_s", "arrivals_s"),
    [(0.25, ([1, 2, 3, 4, 5.25], [1.25, 2.5, 3.75, 5])), (0.75, ([1, 2, 3.75], [1.25, 2.5, 4]))],
)
def test_an_average_delays_no_gradient_that_is_being_computed(
    about: dict[str, Any], step_s: float, arrivals_s: tuple[list[float], list[float]]
) -> None:
    """Worker 0 takes 1 s, worker 1, which asks for averages with it, 1.25 s; an average is two messages of ``step_s``.

    Messages of 0.25 s: averages from 1.25 to 1.75 s, 2.5 to 3 s and 3.75 to 4.25 s, as both compute. Worker 0 steps
    by its gradient of 4 s when the last is over. Messages of 0.75 s: the first average is over at 2.75 s, when both
    step by the gradients of 2 and 2.5 s.
    """
    hosts = {"hosts": parse_hosts({"count": about["hosts"]}, 2, 0)} if "hosts" in about else about
    devices = [DeviceProfile(base_s=base_s) for base_s in (1.0, 1.25)]
    run, tape = session(ADPSGD(), allreduce_job(2, 16), Costs(ring_step_s=step_s), devices, parameters=0, **hosts)
    finish(run, tape)
    for worker, expected in enumerate(arrivals_s):
        arrived = [line["t"] for line in tape.received("Arrived") if line["grad"]["worker"] == worker]
        assert arrived[: len(expected)] == pytest.approx(expected)


def test_its_sums_take_as_long_while_it_computes() -> None:
    """The ring of the first sum, with worker 3 that computes for two seconds, is over as soon as in BSP without it."""
    hosts, ends_s = parse_hosts({"count": 4, "link_mbps": 1}, 4, 0), []
    for strategy, slowest_s in ((EagerSGD(mode="solo"), 2.0), (BSP(), 0.25)):
        devices = [DeviceProfile(base_s=base_s) for base_s in (0.25, 0.25, 0.25, slowest_s)]
        run, tape = session(strategy, allreduce_job(4, 32), FREE, devices, parameters=20_000, hosts=hosts)
        finish(run, tape)
        ends_s.append(tape.update_times()[:2])
    assert ends_s[0] == pytest.approx(ends_s[1])
    assert 0.25 + 0.25 + 6 * 20_000 / 125_000 <= ends_s[0][1] < 2.0


def test_a_second_thread_shares_the_cores_of_its_task_and_ends_with_it() -> None:
    """Worker 0 has one core for a second of computing and half a second of summing: half of it each until 1 s."""
    group, ends_s = Group(2), dict[str, float]()

    def end(what: str) -> Then:
        return lambda: ends_s.setdefault(what, group.clock.now)

    for task in ("worker:0", "worker:1"):
        group.machines.compute(task, 1.0, end(f"{task} computes"))
        group.machines.work_beside(task, 0.5, end(f"{task} sums"))
    with pytest.raises(ValueError, match="is in use"):
        group.machines.work_beside("worker:0", 0.5, end("again"))
    group.clock.at(0.25, MACHINE, group.machines.forget, "worker:1")
    group.run()
    assert ends_s == {"worker:0 sums": 1.0, "worker:0 computes": 1.5}
