"""Gradients that workers hold, on the virtual clock: when they travel, and that links are shared by those that do."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.cluster.device import DeviceProfile
from runtime.cluster.hosts import Hosts, parse_hosts
from runtime.virtual.costs import Costs
from runtime.virtual.machines.sites import PAYLOAD_FRAC
from runtime.virtual.tasks.model_state import NoModelState
from strategies.mlfabric import MLfabric
from strategies.protocol import Apply, Arrived, Compute, Drop, Ready, Send, Started, Strategy
from tests.unit.virtual.test_virtual_session import Tape, finish, ledger, session, uses, virtual_job

LINK = Costs(link_bytes_per_s=100.0)
NUM_PARAMETERS = 100  # 4 s on a link of 100 bytes/s
SECOND = DeviceProfile(base_s=1.0)


class Sender(Strategy):
    """ASP with transfers at once, or one after another; the first of ``drop`` gradients are dropped."""

    needs = frozenset({Compute, Apply, Send, Drop})

    def __init__(self, *, together: bool, drop: int = 0) -> None:
        self.together, self.drop = together, drop
        self.waiting: deque[int] = deque()
        self.travelling = 0

    def handle(self, event: Any) -> Sequence[Any]:
        match event:
            case Started():
                return [Compute(worker=worker, num_samples=1) for worker in event.workers]
            case Ready() if self.drop:
                self.drop -= 1
                return [Drop(grads=(event.grad.id,)), Compute(worker=event.grad.worker, num_samples=1)]
            case Ready():
                self.waiting.append(event.grad.id)
                return self.send()
            case Arrived() if not event.grad.samples:
                return []
            case Arrived():
                self.travelling -= 1
                more = Compute(worker=event.grad.worker, num_samples=1)
                return [Apply(grads=(event.grad.id,), weights=(1.0,)), more, *self.send()]
        return []

    def send(self) -> Sequence[Any]:
        sent = []
        while self.waiting and (self.together or not self.travelling):
            sent.append(Send(grads=(self.waiting.popleft(),)))
            self.travelling += 1
        return sent


def arrivals(tape: Tape) -> list[tuple[int, float]]:
    return [(event["grad"]["worker"], event["t"]) for event in tape.received("Arrived") if event["grad"]["samples"]]


def on_links(strategy: Strategy, costs: Costs = LINK, size: int = 2) -> Tape:
    """So many workers and samples."""
    model_state = NoModelState(NUM_PARAMETERS, None)
    run, tape = session(strategy, virtual_job(size, size), costs, device=SECOND, model_state=model_state)
    finish(run, tape)
    return tape


def test_those_that_travel_together_share_the_servers_link() -> None:
    """Parameters take 2 x 4 s, computing 1 s; then 8 s for both, or 4 and 8 s. The mean is what an order can gain."""
    assert arrivals(on_links(Sender(together=True))) == [(0, 17.0), (1, 17.0)]
    assert arrivals(on_links(Sender(together=False))) == [(0, 13.0), (1, 17.0)]


def test_a_dropped_one_is_computed_again_and_frees_its_worker_at_once() -> None:
    tape = on_links(Sender(together=True, drop=1), Costs(control_s=0.5), 1)
    (arrived,) = tape.received("Arrived")
    assert [event["t"] for event in tape.received("Ready")] == [2.0, 4.0]
    assert (arrived["t"], arrived["grad"]["iteration"], arrived["timings"]["wait_s"]) == (5.0, 1, 0.0)


def hosts_of(num_workers: int, num_servers: int = 1, *, free: int = 0, latencies_s: Sequence[float] = ()) -> Hosts:
    """Each server, then each worker on a host of its own, and hosts without tasks; links of 125,000 bytes/s."""
    tasks = [f"server:{number}" for number in range(num_servers)] + [f"worker:{n}" for n in range(num_workers)]
    placement: list[list[str]] = [[task] for task in tasks] + [[] for _ in range(free)]
    overrides = {num_servers + number: {"latency_ms": 1000 * one} for number, one in enumerate(latencies_s)}
    spec = {"count": len(placement), "placement": placement, "link_mbps": 1.0, "overrides": overrides}
    return parse_hosts(spec, num_workers, num_servers, "hosts")


TRANSFER_S = 4 / PAYLOAD_FRAC


def with_a_pause(late_factor: float | None, *starts_s: float) -> tuple[Tape, set[float]]:
    """A job in which worker 1 is paused for half a minute, and the uses of every sample."""
    strategy = MLfabric(lr_rule="batch_linear", late_factor=late_factor)
    job = virtual_job(4, 120)
    about = {"target": "worker:1", "kind": "pause", "magnitude": 1.0}
    pauses = [Disturbance(start_s=start_s, end_s=start_s + 30.0, **about) for start_s in starts_s]
    schedule = Schedule(build_plan("test", 0, 1e6, pauses))
    more: Any = {"device": SECOND, "actuator": schedule, "model_state": ledger(job, strategy)}
    run, tape = session(strategy, job, **more, hosts=hosts_of(4))
    finish(run, tape)
    return tape, uses(run)


def test_a_paused_worker_whose_turn_it_is_holds_nobody_up() -> None:
    """The others continue; without the rule they wait. In any case every sample counts once."""
    whole, _ = with_a_pause(None)
    turn = next(event for event in whole.received("Arrived") if event["grad"]["worker"] == 1 and event["t"] > 3.0)
    start_s = turn["t"] - turn["timings"]["send_s"] / 2
    updates = []
    for late_factor in (None, 1e9):
        tape, used = with_a_pause(late_factor, start_s)
        assert used == {1.0}
        updates.append(sum(start_s < t < start_s + 30.0 for t in tape.update_times()))
    assert updates[0] > 50
    assert updates[1] == 0
