"""The coordinator while all goes well: data for Computes, epochs, ends, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.measures.metrics import CONVERGED
from runtime.core import executor, inputs
from runtime.core.convergence import Convergence
from strategies.basic.bsp import BSP
from strategies.protocol import (
    Arrived,
    Checkpoint,
    Compute,
    Drop,
    Evaluate,
    Evaluated,
    ProtocolError,
    Started,
    Stop,
    Timings,
    Woke,
)
from tests.support.harness import HeapRun, Puppet, Rig, apply, compute, make_job, puppet_rig


def test_held_computes_arrive_empty_when_nothing_else_is_under_way() -> None:
    """In rank order, at the same moment, with what they were assigned."""
    rig = puppet_rig(num_workers=4)
    rig.say(*compute(3, 2, num_samples=1), *compute(0, 1, num_samples=2))
    assert rig.empties() == []
    rig.arrive(3)
    rig.arrive(2, t=9.0)
    last = [event for event in rig.events if isinstance(event, Arrived)][-2:]
    assert [(event.t, event.grad.worker, event.grad.samples) for event in last] == [(9.0, 0, 0), (9.0, 1, 0)]
    assert {event.grad.assigned_samples for event in last} == {2}
    assert len({event.grad.id for event in rig.events if isinstance(event, Arrived)}) == 4


def test_a_strategy_that_asks_for_data_for_ever_is_stopped() -> None:
    """It keeps a gradient and never applies it: the data cannot come back, and that is said instead of looping."""

    def again(event: Any) -> list[Compute]:
        return compute(event.grad.worker) if isinstance(event, Arrived) else compute(0, 1, 2)

    rig = Rig(Puppet(reply=again), make_job(num_workers=3, global_batch_samples=3, num_samples=2, epochs=2)).start()
    rig.arrive(0)
    with pytest.raises(ProtocolError, match="stuck"):
        rig.arrive(1)
    assert len(rig.events) < 10_000


def test_rounds_without_data_count_only_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every epoch of two samples ends with an empty round of the third worker: ten of them are no reason to stop."""
    monkeypatch.setattr(executor, "MAX_EMPTY_ROUNDS", 3)
    job = make_job(num_workers=3, global_batch_samples=3, num_samples=2, epochs=10, max_time_s=1000.0)
    run = HeapRun(BSP(), job, [1.0] * 3).run()
    assert (run.core.status, run.core.version) == ("done", 10)
    assert sum(isinstance(event, Arrived) and not event.grad.samples for event in run.events) >= 10


def test_the_job_is_done_with_its_last_epoch() -> None:
    """Nothing that the strategy says afterwards counts."""
    rig = puppet_rig(num_workers=2, epochs=1)
    rig.say(*compute(0, 1))
    rig.arrive(0)
    rig.arrive(1)
    rig.say(apply(0, 1), *compute(0))
    assert (rig.core.status, rig.core.reason, rig.core.finished_s) == ("done", "1 epochs done", rig.t)
    assert rig.busy() == {}
    lines = len(rig.lines)
    rig.say(*compute(1))
    rig.lose(0)
    rig.join(0)
    rig.lose_server()
    rig.core.receive(99.0, inputs.Restored(0, rig.stable[1]))
    assert len(rig.lines) == lines


def test_a_schedule_goes_on_by_what_is_given_up_too() -> None:
    """Of 8 samples of two epochs every other one is given up. A linear decay to 0 at 8 is at 1 - k / 8 after k samples,
    lost ones included; it used to end at 1 - 3 / 8."""
    job: dict[str, Any] = {"num_workers": 1, "num_samples": 4, "epochs": 2}
    rig = puppet_rig(**job, lr_at=lambda samples: 1 - samples / 8)
    for step in range(4):
        rig.say(*compute(0))
        rig.arrive(0)
        rig.say(apply(2 * step), *compute(0))
        rig.arrive(0)
        rig.say(Drop(grads=(2 * step + 1,), requeue=False))
    assert [order.lr for _, order, _ in rig.applied] == [1 - k / 8 for k in (0, 2, 4, 6)]
    assert rig.core.status == "done"


def test_an_order_carries_what_is_injected_and_no_more_micro_batches_than_samples() -> None:
    asked = []

    def disturb(target: str, t: float) -> tuple[float, float]:
        asked.append((target, t))
        return 0.25, 0.5

    job = make_job(num_workers=2, global_batch_samples=2, num_samples=3, epochs=1)
    rig = Rig(Puppet(), job, disturb=disturb).start()
    rig.say(Compute(worker=1, num_samples=5, accum=4))
    order = rig.busy()[1]
    assert (order.accum, order.delay_s, order.slowdown_frac) == (3, 0.25, 0.5)
    assert asked == [("worker:1", rig.t)]


@pytest.mark.parametrize(
    ("delay_s", "slowdown_frac", "measured_s", "loader_s"),
    [(0.2, 0.0, 0.21, 0.21), (0.3, 0.5, 0.55, 0.22), (0.3, 0.0, 0.0, 0.0)],
)
def test_the_wait_for_a_loader_is_its_part_of_the_injected_seconds(
    delay_s: float, slowdown_frac: float, measured_s: float, loader_s: float
) -> None:
    """Of 0.4 s of computing, half again and 0.3 s are asked for, 0.2 s of these for a batch: 0.2 / 0.5 of the rest."""
    job = make_job(num_workers=2, global_batch_samples=2, num_samples=4, epochs=1)
    waits = iter((0.2, 0.0))
    disturb, loader_for = (lambda target, t: (delay_s, slowdown_frac)), (lambda target, t: next(waits))
    rig = Rig(Puppet(), job, disturb=disturb, loader_for=loader_for).start()
    for _ in range(2):
        rig.say(Compute(worker=0, num_samples=1))
        order, timings = rig.busy()[0], Timings(compute_s=0.4 + measured_s, injected_s=measured_s)
        rig.core.receive(rig.at(None), inputs.GradientArrived(order.grad_id, 0, timings, loss=1.0))
    told = [line.event.timings for line in rig.lines if isinstance(line.event, Arrived)]
    assert [one.loader_s for one in told] == [pytest.approx(loader_s), 0.0]
    assert told[0].compute_s == 0.4 + measured_s


def test_evaluations_and_checkpoints_come_at_their_intervals_and_on_command() -> None:
    rig = puppet_rig(eval_every_s=2.0, checkpoint_every_s=5.0)
    assert sorted(rig.timers) == [(2.0, "runtime:evaluate"), (5.0, "runtime:checkpoint"), (40.0, "runtime:limit")]
    rig.core.receive(2.0, inputs.TimerFired("runtime:evaluate"))
    assert rig.evaluations == [0], "one at a time"
    rig.core.receive(2.5, inputs.Evaluated(0, 0.0, {"accuracy": 0.1}))
    rig.core.receive(4.0, inputs.TimerFired("runtime:evaluate"))
    rig.core.receive(5.0, inputs.TimerFired("runtime:checkpoint"))
    assert rig.timers[3:] == [(4.0, "runtime:evaluate"), (6.0, "runtime:evaluate"), (10.0, "runtime:checkpoint")]
    rig.core.receive(6.0, inputs.Evaluated(0, 4.0, {}))
    rig.t = 6.0
    rig.say(Evaluate(), Checkpoint())
    assert (rig.evaluations, len(rig.checkpoints)) == ([0, 0, 0], 2)
    assert [type(event) for event in rig.events] == [Started, Evaluated, Woke], "no metrics, no event"


@pytest.mark.parametrize(
    ("higher", "stop", "metrics", "status"),
    [
        (True, True, {"accuracy": 0.9}, "done"),
        (True, True, {"accuracy": 0.89}, None),
        (True, True, {"loss": 0.95}, "failed"),  # of which it could never tell
        (True, True, {"accuracy": float("nan")}, None),
        (True, False, {"accuracy": 0.95}, None),
        (False, True, {"accuracy": 0.9}, "done"),
        (False, True, {"accuracy": 0.95}, None),
    ],
)
def test_a_job_may_end_at_its_target(higher: bool, stop: bool, metrics: dict[str, float], status: str | None) -> None:
    rig = puppet_rig(target=0.9, higher_is_better=higher, stop_at_target=stop)
    rig.core.receive(3.0, inputs.Evaluated(0, 2.0, metrics))
    assert rig.core.status == status
    assert rig.events[-1].metrics is metrics


@pytest.mark.parametrize(
    ("values", "ends_at"), [([0.9, 0.8, 0.9, 0.95, 0.91], 4), ([0.9, 0.95, 0.9], 2), ([0.9, 0.9, 0.8, 0.9, 0.9], None)]
)
def test_a_noisy_metric_reaches_its_target_when_it_holds_it(values: list[float], ends_at: int | None) -> None:
    rig = puppet_rig(target=0.9, target_evals=3, higher_is_better=True, stop_at_target=True)
    for at, value in enumerate(values):
        rig.core.receive(float(at), inputs.Evaluated(0, at - 0.5, {"accuracy": value}))
        assert (rig.core.status == "done") == (at == ends_at)


@pytest.mark.parametrize(
    ("values", "stop", "ends_at"),
    [
        ([0.0, 0.5, 0.5, 0.625, 1.0], True, 3),
        ([0.0, 0.5, 0.75, 0.625, 1.0], True, None),  # a change as large as the bound is a change
        ([0.5, 0.5], True, None),
        ([0.5, float("nan"), 0.5, 0.5, 0.5], True, 4),
        ([0.5] * 5, False, None),
    ],
)
def test_a_job_may_end_when_its_metric_has_converged(values: list[float], stop: bool, ends_at: int | None) -> None:
    """Three evaluations within 0.25."""
    rule = Convergence(evaluations=3, max_change=0.25)
    rig = puppet_rig(convergence=rule, stop_at_convergence=stop)
    for at, value in enumerate(values):
        rig.core.receive(float(at), inputs.Evaluated(0, at - 0.5, {"accuracy": value}))
        if at == ends_at:
            assert rig.core.reason == f"accuracy{CONVERGED}", "what an experiment's `converged_frac` looks for"
        assert (rig.core.status == "done") == (ends_at is not None and at >= ends_at)


@pytest.mark.parametrize(
    ("metrics", "status"), [({"accuracy": 0.5}, None), ({}, None), ({"loss": 1.0, "auc": 0.5}, "failed")]
)
def test_a_job_that_is_judged_by_what_nobody_measures_fails(metrics: dict[str, float], status: str | None) -> None:
    rig, unjudged = puppet_rig(target=0.9), puppet_rig(target=None)
    rig.core.receive(1.0, inputs.Evaluated(0, 0.5, metrics))
    unjudged.core.receive(1.0, inputs.Evaluated(0, 0.5, metrics))
    assert (rig.core.status, unjudged.core.status) == (status, None)
    assert rig.core.reason == ("workload.metric=accuracy: is not measured; auc, loss are" if status else "")


@pytest.mark.parametrize(("ok", "status"), [(True, "done"), (False, "failed")])
def test_a_strategy_may_stop_the_job(ok: bool, status: str) -> None:
    rig = puppet_rig()
    rig.say(Stop(reason="enough", ok=ok), *compute(0))
    assert (rig.core.status, rig.core.reason, rig.busy()) == (status, "enough", {})
