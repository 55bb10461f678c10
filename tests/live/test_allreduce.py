"""Replicas that sum their gradients: equal to a server, to each other and to themselves, whoever dies when."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from runtime.core.job import ApplyOrder, ComputeOrder, PushOrder, StepOrder
from runtime.core.vectors import server_range
from runtime.training.optimizers import make_optimizer
from tests.live.retrace import Retracing
from tests.live.test_faults import PACED
from tests.support.exact import ALLOW, assert_sound, assert_uses_are_exact, end_exactly
from tests.support.leaks import Start
from tests.support.long_tests import long_after
from tests.support.runs import CONF, DIGITS, LEDGER, Run

pytestmark = pytest.mark.live

ALLREDUCE = "topology=allreduce"
ENDLESS = (*LEDGER, *PACED, ALLREDUCE, "workload.epochs=null", "save_parameters=true")
SHORT = ("workload.epochs=2", "save_parameters=true")
MOMENTUM = ("workload.optimizer.momentum=0.9",)
BOUNDED = ("topology.collective=transpose", "topology.bound_s=600")


@pytest.mark.long(like="test_each_sample_counts_once_whoever_dies_at_any_moment")
def test_runs_are_bit_equal_with_and_without_deaths(start: Start) -> None:
    """A worker whose round is lost computes the same samples again on the same parameters."""
    more = (*DIGITS, *SHORT, *MOMENTUM, ALLREDUCE, "cluster.device={base_s: 0.02}", "checkpoint_every_s=null")
    calm, hit = start("calm", *more), start("hit", *more)
    for worker in (2, 0):
        hit.await_training(hit.version + 3)
        assert hit.unregister(("worker", worker))
        hit.await_events("Restored", len(hit.events("Restored")) + 1)
    calm.finish()
    hit.finish()
    assert hit.sha256 == calm.sha256
    assert len(hit.events("Lost")) == 2
    assert_sound(hit)


@pytest.mark.parametrize(
    "strategy",
    long_after([(), ("strategy=prague", "strategy.common_every=4"), ("topology.collective=tree",), BOUNDED], always=1),
)
def test_each_sample_counts_once_whoever_dies_at_any_moment(start: Start, strategy: tuple[str, ...]) -> None:
    """Unpaced, so that most of the time goes into rings and updates; two die at once now and then."""
    dice = random.Random(5)
    run = start("run", *ENDLESS, "cluster.device=null", *strategy)
    run.await_training(5)
    for _ in range(6):
        time.sleep(dice.random() * 0.02)
        restored = len(run.events("Restored"))
        struck = [run.unregister(("worker", worker)) for worker in dice.sample(range(4), dice.choice([1, 1, 2]))]
        assert any(struck)
        run.await_events("Restored", restored + 1)
        run.await_progress(8)
    run.interrupt()
    assert len(run.events("Restored")) >= 6
    assert not run.events("ServerLost")
    assert_uses_are_exact(run)
    assert_sound(run)


@pytest.mark.long(like="test_each_sample_counts_once_whoever_dies_at_any_moment")
def test_what_was_not_computed_in_time_is_computed_later_whoever_dies(start: Start) -> None:
    """Every worker computes one of two micro-batches, and the other returns to the queue."""
    in_time = ("micro_batches=2", "threshold_s=1e-6", "divide_by=computed", "requeue=true")
    run = start("run", *ENDLESS, "strategy=dropcompute", *(f"strategy.{words}" for words in in_time))
    for worker in (2, 0):
        run.await_training(run.version + 8)
        restored = len(run.events("Restored"))
        assert run.unregister(("worker", worker))
        run.await_events("Restored", restored + 1)
    run.await_progress(8)
    run.interrupt()
    assert sum(event["grad"].get("cut_samples", 0) for event in run.events("Arrived")) > 0
    assert_uses_are_exact(run)
    assert_sound(run)


@pytest.mark.long(like="test_each_sample_counts_once_whoever_dies_at_any_moment")
def test_when_all_die_at_once_the_last_checkpoint_goes_on(start: Start) -> None:
    run = start("run", *ENDLESS)
    run.await_that(lambda: any(note["version"] > 0 for note in run.notes("Checkpointed")), "a checkpoint")
    agent = run.agent_pid
    os.kill(agent, signal.SIGSTOP)  # so that nobody is back before the last is gone
    assert all(run.unregister(("worker", worker)) for worker in range(4))
    os.kill(agent, signal.SIGCONT)
    restored = run.await_events("Restored")[-1]
    stored = {note["version"] for note in run.notes("Checkpointed")}
    assert restored["version"] in stored - {0}
    run.await_progress(20)
    end_exactly(run)
    assert_sound(run)


@pytest.mark.long(like="test_each_sample_counts_once_whoever_dies_at_any_moment")
def test_a_worker_that_is_restarted_elsewhere_joins_with_the_parameters_of_then(start: Start) -> None:
    orders = "strategy.orders=['worker:0@0.5']"
    run = start("run", *ENDLESS, *CONF, "strategy=restarting", "scheduler.pending_s=0.5", orders, env=ALLOW)
    (joined,) = run.await_events("Joined")
    (lost,), (restored,) = run.events("Lost"), run.events("Restored")
    assert (lost["worker"], lost["restarting"]) == (0, False)
    assert restored["t"] - lost["t"] < joined["t"] - lost["t"] >= 0.5
    assert restored["workers"] == [1, 2, 3]
    run.await_progress(20)
    late = {event["grad"]["worker"] for event in run.events("Arrived") if event["t"] > joined["t"]}
    assert late == {0, 1, 2, 3}
    end_exactly(run)


@pytest.mark.long(like="test_each_sample_counts_once_whoever_dies_at_any_moment")
@pytest.mark.parametrize("collective", ["tree", "halving_doubling", "transpose", "gloo", "ddp"])
def test_others_sum_what_the_ring_sums(start: Start, collective: str) -> None:
    """The last rounds leave workers without samples; batches are unequal."""
    more = (*DIGITS, *SHORT, *MOMENTUM, ALLREDUCE, "workload.global_batch_samples=102")
    ring = start("ring", *more).finish()
    theirs = start(collective, *more, f"topology.collective={collective}").finish()
    assert theirs.version == ring.version > 0
    np.testing.assert_allclose(theirs.parameters(), ring.parameters(), rtol=1e-4, atol=1e-5)
    assert theirs.meta["job"]["collective"] == collective
    assert_sound(theirs)


@pytest.mark.long(like="test_each_sample_counts_once_whoever_dies_at_any_moment")
def test_gloo_meets_again_after_a_death(start: Start) -> None:
    run = start("run", *ENDLESS, "topology.collective=gloo")
    for worker in (1, 0):
        run.await_training(run.version + 5)
        assert run.unregister(("worker", worker))
        run.await_events("Restored", len(run.events("Restored")) + 1)
    run.await_progress(20)
    end_exactly(run)
    assert_sound(run)


LGC = ("topology=allreduce", "strategy=lgc", "strategy.topology=allreduce", "strategy.k_fastest=2")
WAITING = ("topology=allreduce", "strategy=waiting_ring", *CONF)
SLOW_0 = ("straggler=persistent", "straggler.sleep_iters=null", "straggler.sleep_s=0.015", "straggler.intensity=1.0")


def children(run: Run) -> dict[int, int]:
    """Those of the last update, with their parents."""
    updates = [one for line in run.lines() for one in line.get("commands", ()) if one["type"] == "Apply"]
    return dict(updates[-1].get("children", ())) if updates else {}


def await_children(run: Run) -> dict[int, int]:
    run.await_that(lambda: bool(children(run)), "a child")
    return children(run)


class RingRetrace(Retracing):
    """As a ring adds: every member its own gradients and its children's, then part k from member k on around."""

    def apply(self, order: ApplyOrder) -> None:
        holder = {grad: self.orders[grad].parent for grad in order.grads}
        holder = {grad: self.orders[grad].worker if parent is None else parent for grad, parent in holder.items()}
        members = [worker for worker in range(self.core.job.num_workers) if worker not in order.excluded]
        shares = [self.share([self.vectors[grad] for grad in order.grads if holder[grad] == one]) for one in members]
        total, count = np.empty_like(self.params), len(members)
        for part in range(count):
            lo, hi = server_range(len(total), count, part)
            total[lo:hi] = shares[part][lo:hi]
            for turn in range(1, count):
                total[lo:hi] = shares[(part + turn) % count][lo:hi] + total[lo:hi]
        self.optimizer.step(self.params, [total], [order.weights[0]], order.lr, order.samples)
        self.versions.append(self.params.copy())

    def share(self, grads: list[Any]) -> Any:
        total = grads[0].copy() if grads else np.zeros_like(self.params)
        for grad in grads[1:]:
            total += grad
        return total


@pytest.mark.long(like="test_each_sample_counts_once_when_a_child_dies_or_a_parent")
@pytest.mark.parametrize(
    "strategy",
    [(*LGC, "strategy.reselect_iters=4"), WAITING],
)
def test_what_is_learned_is_to_the_bit_what_the_record_says(start: Start, strategy: tuple[str, ...]) -> None:
    """Worker 0 is slow, so that another replica delivers to the evaluator from then on."""
    settings = ("workload.epochs=2", "cluster.device={base_s: 0.01}", "save_parameters=true", "eval_every_s=0.1")
    run = start("run", *DIGITS, *settings, *strategy, "workload.optimizer.momentum=0.9", *SLOW_0)
    run.finish()
    assert_sound(run)
    updates = [one for line in run.lines() for one in line.get("commands", ()) if one["type"] == "Apply"]
    assert sum(bool(one.get("children")) for one in updates) > len(updates) / 2
    assert any(0 in dict(one.get("children", ())) for one in updates)
    again = RingRetrace(run, num_servers=0)
    assert len(again.versions) == run.version + 1
    np.testing.assert_array_equal(again.params, run.parameters())


@pytest.mark.parametrize("strategy", long_after([(*LGC, "strategy.reselect_iters=3"), WAITING], always=1))
def test_each_sample_counts_once_when_a_child_dies_or_a_parent(start: Start, strategy: tuple[str, ...]) -> None:
    """In turns; another is the child after that, since all are in the ring first."""
    settings = (*LEDGER, *PACED, "workload.epochs=null", "save_parameters=true", "eval_every_s=0.1")
    run = start("run", *settings, *strategy, *SLOW_0)
    for number in range(2):
        restored = len(run.events("Restored"))
        child, parent = next(iter(await_children(run).items()))
        assert run.unregister(("worker", parent if number % 2 else child))
        run.await_events("Restored", restored + 1)
        run.await_progress(8)
    await_children(run)
    run.await_events("Evaluated", len(run.events("Evaluated")) + 2)
    run.interrupt()
    assert len(run.events("Lost")) == 2
    assert_uses_are_exact(run)
    assert_sound(run)


# ---- workers that step alone -----------------------------------------------------------------------------------------

ALONE = (*LEDGER, *PACED, ALLREDUCE, "strategy=local_sgd", "strategy.period=3", "save_parameters=true")
DILOCO = (*DIGITS, *SHORT, *MOMENTUM, ALLREDUCE, "strategy=diloco", "strategy.period=3", "strategy.data=even")
STREAMED = ("strategy.period=4", "strategy.fragments=2", "strategy.delay=1", "strategy.mixing=0.5")
STREAMING = (
    *LEDGER,
    *PACED,
    ALLREDUCE,
    "strategy=diloco",
    *STREAMED,
    "strategy.common_every=6",
    "save_parameters=true",
)
QUORUM = (*LEDGER, *PACED, ALLREDUCE, "strategy=decoupled_diloco", "strategy.period=3", *SLOW_0, "save_parameters=true")
ASYNC = (*LEDGER, *PACED, ALLREDUCE, "strategy=async_local_sgd", "strategy.period=3", *SLOW_0, "save_parameters=true")
PRAGUE = (ALLREDUCE, "strategy=prague", "strategy.common_every=4")
AD_PSGD = (ALLREDUCE, "strategy=ad_psgd", "strategy.common_every=4")
SGP = (ALLREDUCE, "strategy=sgp", "strategy.common_every=4")
PUSHING = (*DIGITS, *SHORT, *MOMENTUM, *SGP, "strategy.data=even")
GROUPS, PAIRS, HALVES = ((*LEDGER, *PACED, *mixing, "save_parameters=true") for mixing in (PRAGUE, AD_PSGD, SGP))


@pytest.mark.parametrize("settings", long_after([ALONE, GROUPS, PAIRS, STREAMING, QUORUM, HALVES, ASYNC], always=6))
def test_each_sample_counts_once_whoever_dies_between_two_averages(start: Start, settings: tuple[str, ...]) -> None:
    run = start("run", *settings, "workload.epochs=null")
    for worker in (1, 0):
        run.await_training(run.version + 2)
        assert run.unregister(("worker", worker))
        run.await_events("Restored", len(run.events("Restored")) + 1)
    run.await_progress(5)
    end_exactly(run)
    assert_sound(run)


@pytest.mark.long(like="test_each_sample_counts_once_whoever_dies_between_two_averages")
@pytest.mark.parametrize(
    "settings",
    [DILOCO, (*DILOCO, *STREAMED, "strategy.common_every=5"), PUSHING],
    ids=["plain", "fragments", "halves"],
)
def test_steps_alone_are_those_of_the_virtual_clock(start: Start, settings: tuple[str, ...]) -> None:
    """Each worker has the same orders in the same order, and the same losses; sums are added in another order."""
    settings = (*settings, "cluster.device={base_s: 0.02}")
    live = start("live", *settings).finish()
    virtual = start("virtual", *settings, "runtime=virtual").finish()
    assert orders_of(live) == orders_of(virtual)
    assert live.version == virtual.version > 4
    losses = [
        [event["loss"] for event in sorted(run.events("Arrived"), key=in_order) if event["grad"]["samples"]]
        for run in (live, virtual)
    ]
    np.testing.assert_allclose(*losses, rtol=1e-5)
    np.testing.assert_allclose(live.parameters(), virtual.parameters(), rtol=1e-4, atol=1e-6)
    assert_sound(live)


def in_order(event: dict[str, Any]) -> tuple[int, int]:
    return event["grad"]["worker"], event["grad"]["iteration"]


def orders_of(run: Run) -> list[list[str]]:
    """What each worker is ordered to do, and updates by the workers and iterations of their gradients."""
    named = {event["grad"]["id"]: in_order(event) for event in run.events("Arrived")}
    found: list[list[str]] = [[] for _ in range(4)]
    for command in (command for line in run.lines() for command in line.get("commands", ())):
        match command:
            case {"type": "Compute", "worker": worker, "num_samples": samples}:
                found[worker].append(f"compute {samples}")
            case {"type": "StepAlone", "grads": [grad]}:
                found[named[grad][0]].append(f"step by {named[grad]}")
            case {"type": "PushHalf", "worker": worker, **half}:
                found[worker] += [f"send half to {half['to']}"] if "to" in half else []
                found[worker] += [f"add half of {source}" for source in half.get("adds", ())]
            case {"type": "Apply", "grads": grads}:
                for orders in found:
                    orders.append(f"update of {[named[grad] for grad in grads]}")
    return found


class GroupRetrace(Retracing):
    """Every worker's own parameters, which groups average, or which go to others with their ``weights``, a half each
    time. ``bases``: what those that stayed have moved from."""

    def __init__(self, run: Run) -> None:
        self.rule = {name: value for name, value in run.meta["job"]["optimizer"].items() if name != "lr"}
        self.own: dict[int, Any] = {}
        self.optimizers: dict[int, Any] = {}
        self.bases: dict[int, Any] = {}
        self.weights: defaultdict[int, float] = defaultdict(lambda: 1.0)
        self.halves: defaultdict[tuple[int, int], list[tuple[Any, float]]] = defaultdict(list)
        super().__init__(run, num_servers=0)

    def compute(self, order: ComputeOrder) -> None:
        common, self.params = self.params, self.own.get(order.worker, self.params) / self.weights[order.worker]
        super().compute(order)
        self.params = common

    def step_alone(self, order: StepOrder) -> None:
        own = self.own.setdefault(order.worker, self.params.copy())
        fresh = make_optimizer(num_elements=len(own), **self.rule)
        optimizer = self.optimizers.setdefault(order.worker, fresh)
        optimizer.step(own, [self.vectors[order.grad_id]], [1 / order.samples], order.lr, order.samples)

    def average(self, workers: tuple[int, ...]) -> None:
        super().average(workers)
        mean = np.mean([self.own[worker] for worker in workers], axis=0)
        for worker in workers:
            self.own[worker][:] = mean

    def push_half(self, order: PushOrder) -> None:
        super().push_half(order)
        own = self.own.setdefault(order.worker, self.params.copy())
        if order.to is not None:
            own /= 2
            self.weights[order.worker] /= 2
            self.halves[order.worker, order.to].append((own.copy(), self.weights[order.worker]))
        for source in order.adds:
            half, weight = self.halves[source, order.worker].pop(0)
            own += half
            self.weights[order.worker] += weight

    def apply(self, order: ApplyOrder) -> None:
        moves = [
            np.float32(factor) * (self.bases.get(worker, self.params) - self.own.get(worker, self.params))
            for worker, factor in order.moves
        ]
        for worker in order.stays:
            self.own.setdefault(worker, self.params.copy())
            self.bases.setdefault(worker, self.params)
        self.params = self.params - np.float32(order.lr) * np.sum(moves, axis=0)
        self.weights.clear()
        for worker, own in self.own.items():
            if worker not in order.stays:
                own[:] = self.params
                self.bases.pop(worker, None)
        self.versions.append(self.params.copy())


@pytest.mark.long(like="test_each_sample_counts_once_whoever_dies_between_two_averages")
@pytest.mark.parametrize(
    "mixing", [PRAGUE, AD_PSGD, (*SGP, "strategy.overlap_iters=1")], ids=["groups", "pairs", "halves"]
)
def test_groups_learn_what_the_record_says(start: Start, mixing: tuple[str, ...]) -> None:
    """Worker 0 is slow. Who averages with whom, and when a half is added, depends on the times of this run; the record
    has it."""
    run = start("run", *DIGITS, *SHORT, *MOMENTUM, *mixing, "cluster.device={base_s: 0.01}", *SLOW_0)
    run.finish()
    assert_sound(run)
    again = GroupRetrace(run)
    averaged = {workers for _, workers in again.averages}
    sent = {(order.worker, order.to) for _, order in again.pushes if order.to is not None}
    assert len(averaged or sent) > 3
    assert len(again.versions) == run.version + 1 > 3
    np.testing.assert_allclose(again.params, run.parameters(), rtol=1e-4, atol=1e-6)


@pytest.mark.long(like="test_each_sample_counts_once_whoever_dies_between_two_averages")
def test_a_quorum_learns_what_the_record_says(start: Start) -> None:
    """Worker 0 is slow: the others make updates without it, while it computes; then it is in one, too."""
    outer = ("strategy.outer_lr=0.5", "strategy.outer_momentum=0.0", "strategy.outer_nesterov=false")
    more = (
        "strategy=decoupled_diloco",
        "strategy.period=2",
        "strategy.grace_s=0.0",
        *outer,
        "cluster.device={base_s: 0.01}",
    )
    slow = [word.replace("0.015", "0.06") for word in SLOW_0]  # slower than a busy machine makes the others
    run = start("run", *DIGITS, *SHORT, *MOMENTUM, ALLREDUCE, *more, *slow).finish()
    assert_sound(run)
    assert overlaps(run) > 0
    again = GroupRetrace(run)
    assert len(again.versions) == run.version + 1 > 3
    np.testing.assert_allclose(again.params, run.parameters(), rtol=1e-4, atol=1e-6)


# ---- workers that sum while they compute ----------------------------------------------------------------------------

EAGER = (ALLREDUCE, "strategy=eager_sgd")


def overlaps(run: Run) -> int:
    """Sums that were complete while worker 0 computed: another worker has computed on their parameters meanwhile.

    A sum needs all replicas, so none is complete before worker 0 has taken part.
    """
    found, newest, began = set[int](), 0, 0
    for line in run.lines():
        if line["kind"] == "event" and (grad := line["event"].get("grad")):
            if grad["worker"] == 0:
                found |= set(range(grad["version"] + 1, newest + 1)) if began else set()
                newest, began = 0, 1
            else:
                newest = max(newest, grad["version"])
    return len(found)


@pytest.mark.parametrize("mode", long_after(["majority", "solo"], always=1))
def test_sums_while_workers_compute_are_to_the_bit_what_the_record_says(start: Start, mode: str) -> None:
    """Worker 0 is slow."""
    settings = ("workload.epochs=2", "cluster.device={base_s: 0.01}", "save_parameters=true", "eval_every_s=0.1")
    run = start("run", *DIGITS, *settings, *MOMENTUM, *EAGER, f"strategy.mode={mode}", *SLOW_0)
    run.finish()
    assert_sound(run)
    assert overlaps(run) > 0
    again = RingRetrace(run, num_servers=0)
    assert len(again.versions) == run.version + 1
    np.testing.assert_array_equal(again.params, run.parameters())


def test_each_sample_counts_once_whoever_dies_while_the_others_sum(start: Start) -> None:
    run = start("run", *ENDLESS, *EAGER, "strategy.mode=solo", *SLOW_0)
    for worker in (1, 0):
        run.await_training(run.version + 5)
        assert run.unregister(("worker", worker))
        run.await_events("Restored", len(run.events("Restored")) + 1)
    run.await_progress(8)
    end_exactly(run)
    assert overlaps(run) > 0
    assert_sound(run)


@pytest.mark.long(like="test_sums_while_workers_compute_are_to_the_bit_what_the_record_says")
def test_if_all_sums_wait_for_all_it_is_bsp_to_the_bit(start: Start) -> None:
    more = (*DIGITS, *SHORT, *MOMENTUM, "cluster.device={base_s: 0.02}")
    bsp = start("bsp", *more, ALLREDUCE).finish()
    eager = start("eager", *more, *EAGER, "strategy.mode=solo", "strategy.sync_every=1").finish()
    assert eager.sha256 == bsp.sha256
    assert overlaps(eager) == 0
    assert_sound(eager)
