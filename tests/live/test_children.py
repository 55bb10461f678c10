"""Replicas that are children of others: their gradients count once, whoever dies, and to the bit as the record says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime.core.job import ApplyOrder
from runtime.core.vectors import server_range
from tests.live.retrace import Retracing
from tests.live.test_faults import PACED
from tests.support.exact import assert_sound, assert_uses_are_exact
from tests.support.leaks import Start
from tests.support.long_tests import long_after
from tests.support.runs import CONF, DIGITS, LEDGER, Run

pytestmark = pytest.mark.live

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
    [
        pytest.param((*LGC, "strategy.reselect_iters=4"), id="lgc"),
        pytest.param(WAITING, id="waiting", marks=pytest.mark.long),
    ],
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


@pytest.mark.parametrize(
    "strategy", long_after([(*LGC, "strategy.reselect_iters=3"), WAITING], always=1), ids=["lgc", "waiting"]
)
def test_each_sample_counts_once_when_a_child_dies_or_a_parent(start: Start, strategy: tuple[str, ...]) -> None:
    """In turns; another is the child after that, since all are in the ring first."""
    settings = (*LEDGER, *PACED, "workload.epochs=null", "save_parameters=true", "eval_every_s=0.1")
    run = start("run", *settings, *strategy, *SLOW_0)
    for number in range(4):
        restored = len(run.events("Restored"))
        child, parent = next(iter(await_children(run).items()))
        assert run.unregister(("worker", parent if number % 2 else child))
        run.await_events("Restored", restored + 1)
        run.await_progress(8)
    await_children(run)
    run.await_events("Evaluated", len(run.events("Evaluated")) + 2)
    run.interrupt()
    assert len(run.events("Lost")) == 4
    assert_uses_are_exact(run)
    assert_sound(run)
