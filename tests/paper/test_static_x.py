"""Static x-order against its source: STAR, section IV-B."""

from __future__ import annotations

import pytest

from strategies.basic.static_x import ExactlyGate, StaticX
from strategies.parts.gates import Verdict
from strategies.parts.gates.base import NOTHING
from strategies.protocol import Apply, Grad
from tests.support.faults import Crash
from tests.support.harness import HeapRun, Rig, make_job
from tests.support.laws import Complaints, dead


def of_four(x: int) -> HeapRun:
    """Workers that need 1, 1, 1 and 4 s, for 40 s."""
    return HeapRun(StaticX(x=x), make_job(), [1, 1, 1, 4]).run()


@pytest.mark.parametrize(("x", "updates", "gradients"), [(1, 130, 130), (2, 50, 100), (3, 40, 120), (4, 10, 40)])
def test_parameters_are_updated_with_x_gradients_each_time(x: int, updates: int, gradients: int) -> None:
    """STAR, section IV-B. STAR: "parameters are updated using the gradients from x workers each time": counts worked
    by hand."""
    run = of_four(x)
    assert (run.updates, len(run.used)) == (updates, gradients)
    assert {len(order.grads) for _, order, _ in run.applied} == {x}


def test_three_of_four_do_not_wait_for_the_fourth() -> None:
    """Section IV-B: x from 2 to N - 1. x = 3: an update every second, although one worker needs four."""
    assert [t for t, _, _ in of_four(3).applied] == [float(k) for k in range(1, 41)]


@pytest.mark.parametrize(("x", "mean"), [(1, 2.954), (2, 0.98), (4, 0.0)])
def test_more_gradients_together_are_less_stale(x: int, mean: float) -> None:
    """STAR, section IV-B. STAR: "more gradients being synchronized reduces stale gradients": versions between
    computation and use."""
    staleness = of_four(x).staleness
    assert sum(staleness) / len(staleness) == pytest.approx(mean, abs=1e-3)


def undropped(run: HeapRun) -> Complaints:
    """Late gradients must be used in the next update: whatever has arrived is used, or waits."""
    gone = len(run.grads) - len(run.used) - len(run.core.ledger.grads)
    return [f"{gone} gradients were thrown away"] if gone else []


def test_late_gradients_are_used_and_never_dropped() -> None:
    """Section IV-B: late gradients are used in the next update."""
    run = of_four(3)
    assert undropped(run) == []
    assert max(run.staleness) >= 3
    assert sum(grad.worker == 3 for grad in run.used) == 10


def test_the_rate_is_scaled_by_the_share_of_the_batch() -> None:
    """Section IV-C, "Scaling learning rate after switching". r_new = x/N r_SSGD, and a mean over the samples: two of
    four workers with two samples each."""
    run = HeapRun(StaticX(x=2), make_job(global_batch_samples=8), [1, 1, 1, 4]).run()
    applies = [command for command in run.commands if isinstance(command, Apply)]
    assert {(command.weights, command.lr_scale) for command in applies} == {((1 / 4, 1 / 4), 0.5)}


def test_a_worker_whose_gradient_waits_does_not_compute() -> None:
    """Section IV-B: a worker waits for the update with its gradient."""
    rig = Rig(StaticX(x=2)).start()
    rig.arrive(3)
    assert rig.busy_workers() == [0, 1, 2]
    rig.arrive(1)
    assert rig.applied[0][1].grads == (1, 3)
    assert rig.busy_workers() == [0, 1, 2, 3]


def test_a_gate_that_drops_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a gate that drops late gradients."""
    original, versions = ExactlyGate.arrived, [0]

    def arrived(self: ExactlyGate, grad: Grad) -> Verdict:
        if grad.version < versions[-1]:
            return Verdict(drop=(grad,), go=(grad.worker,))
        verdict = original(self, grad)
        versions.append(versions[-1] + bool(verdict.apply))
        return verdict

    monkeypatch.setattr(ExactlyGate, "arrived", arrived)
    assert undropped(of_four(3))


def test_a_gate_that_waits_for_departed_workers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a gate that does not lower x when workers leave."""
    monkeypatch.setattr(ExactlyGate, "lost", lambda self, worker, restarting: NOTHING)
    job = make_job(num_samples=100, epochs=1, max_time_s=200.0)
    assert dead(HeapRun(StaticX(x=4), job, [1.0] * 4, [Crash(2.5, 1, None)]).run())


def test_x_above_the_number_of_workers_is_refused() -> None:
    """Section IV-B: x is from 1 to N."""
    with pytest.raises(ValueError, match=r"x=5: must be at most the number of workers \(4\)"):
        StaticX(x=5).validate(4)
    with pytest.raises(ValueError, match="x=0: must be a whole number, 1 or more"):
        StaticX(x=0)
