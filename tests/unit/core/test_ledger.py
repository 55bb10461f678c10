"""The ledger refuses what the laws forbid."""

from __future__ import annotations

import pytest

from runtime.core.ledger import HISTORY, REMEMBERED, GradientLedger, Order
from strategies.protocol import Compute, Grad, Joined, Lost, ProtocolError, Score


@pytest.fixture
def ledger() -> GradientLedger:
    return GradientLedger()


def make_grad(grad_id: int, worker: int = 0, samples: int = 2) -> Grad:
    return Grad(id=grad_id, worker=worker, incarnation=0, iteration=0, version=0, samples=samples, assigned_samples=2)


def make_order(worker: int) -> Order:
    """What a worker is busy with."""
    return Order(grad_id=7, worker=worker, iteration=0, version=0, assigned_samples=2, samples=2)


def test_an_idle_living_worker_may_compute(ledger: GradientLedger) -> None:
    ledger.check_compute(Compute(worker=3, num_samples=4, accum=4), alive=True)


def test_a_dead_worker_may_not(ledger: GradientLedger) -> None:
    with pytest.raises(ProtocolError, match=r"worker 3: .*is not running"):
        ledger.check_compute(Compute(worker=3, num_samples=4), alive=False)


def test_a_busy_worker_may_not(ledger: GradientLedger) -> None:
    ledger.busy[3] = make_order(3)
    with pytest.raises(ProtocolError, match=r"worker 3: .*while it is busy"):
        ledger.check_compute(Compute(worker=3, num_samples=4), alive=True)
    ledger.check_compute(Compute(worker=2, num_samples=4), alive=True)


def test_a_held_worker_may_not(ledger: GradientLedger) -> None:
    ledger.starved[3] = Compute(worker=3, num_samples=4)
    with pytest.raises(ProtocolError, match=r"worker 3: .*while it is busy"):
        ledger.check_compute(Compute(worker=3, num_samples=4), alive=True)


@pytest.mark.parametrize(("num_samples", "accum"), [(0, 1), (-1, 1), (4, 0), (4, 5), (4, -1)])
def test_a_micro_batch_needs_a_sample(ledger: GradientLedger, num_samples: int, accum: int) -> None:
    with pytest.raises(ProtocolError, match="at least one sample per micro-batch"):
        ledger.check_compute(Compute(worker=0, num_samples=num_samples, accum=accum), alive=True)


def test_a_gradient_is_used_once(ledger: GradientLedger) -> None:
    grads = [make_grad(1), make_grad(2, worker=1)]
    for grad in grads:
        ledger.arrived(grad)
    assert ledger.use((2, 1), "Apply") == [grads[1], grads[0]]
    for what in ("Apply", "Drop"):
        with pytest.raises(ProtocolError, match=rf"{what} of \[1\]: not arrived, or used before"):
            ledger.use((1,), what)


def test_a_gradient_that_did_not_arrive_is_not_used(ledger: GradientLedger) -> None:
    ledger.arrived(make_grad(1))
    with pytest.raises(ProtocolError, match=r"Apply of \[5\].*unused are \[1\]"):
        ledger.use((1, 5), "Apply")
    assert ledger.use((1,), "Apply"), "what is refused has used nothing up"


def test_a_gradient_without_samples_is_nothing_to_use(ledger: GradientLedger) -> None:
    ledger.arrived(make_grad(1, samples=0))
    with pytest.raises(ProtocolError, match="Drop"):
        ledger.use((1,), "Drop")


@pytest.mark.parametrize("ids", [(), (1, 1)])
def test_an_update_of_nothing_or_of_the_same_twice_is_refused(ledger: GradientLedger, ids: tuple[int, ...]) -> None:
    ledger.arrived(make_grad(1))
    with pytest.raises(ProtocolError, match="at least one gradient, and none twice"):
        ledger.use(ids, "Apply")


def test_void_is_everything(ledger: GradientLedger) -> None:
    ledger.arrived(make_grad(1))
    ledger.busy[0] = make_order(0)
    ledger.starved[1] = Compute(worker=1, num_samples=1)
    ledger.void()
    for worker in (0, 1):
        ledger.check_compute(Compute(worker=worker, num_samples=1), alive=True)
    with pytest.raises(ProtocolError):
        ledger.use((1,), "Apply")


def test_an_error_ends_with_the_last_events_of_that_worker(ledger: GradientLedger) -> None:
    for t in range(HISTORY + 1):
        ledger.note_event(3, Joined(t=float(t), worker=3, incarnation=t))
    ledger.note_event(2, Lost(t=99.0, worker=2, incarnation=0, reason="killed", restarting=True))
    with pytest.raises(ProtocolError) as caught:
        ledger.check_compute(Compute(worker=3, num_samples=4), alive=False)
    shown = str(caught.value).partition("its last events:\n")[2].splitlines()
    assert [line.strip() for line in shown] == [
        str(Joined(t=float(t), worker=3, incarnation=t)) for t in range(1, HISTORY + 1)
    ]


def test_a_worker_of_which_nothing_is_known_has_no_events(ledger: GradientLedger) -> None:
    with pytest.raises(ProtocolError, match=r"its last events:\n  none$"):
        ledger.check_compute(Compute(worker=3, num_samples=4), alive=False)


def test_what_is_remembered_of_used_gradients_and_of_events_does_not_grow(ledger: GradientLedger) -> None:
    for number in range(3 * REMEMBERED):
        ledger.arrived(make_grad(number, worker=7))
        ledger.use((number,), "Apply")
        ledger.note_event(7, Joined(t=float(number), worker=7, incarnation=number))
    assert len(ledger.last_events(7)) == HISTORY
    newest, oldest = 3 * REMEMBERED - 1, 0
    with pytest.raises(ProtocolError, match="worker 7: "):
        ledger.use((newest,), "Drop")
    with pytest.raises(ProtocolError, match=r"^Drop of \[0\]: not arrived"):
        ledger.use((oldest,), "Drop")


def test_a_gradient_is_not_scored_twice_at_once(ledger: GradientLedger) -> None:
    ledger.arrived(make_grad(1, worker=4))
    assert ledger.check_score(Score(grad=1), set()).worker == 4
    with pytest.raises(ProtocolError, match=r"worker 4: .*while its last score is pending"):
        ledger.check_score(Score(grad=1), {1})
    with pytest.raises(ProtocolError, match="not arrived, or used before"):
        ledger.check_score(Score(grad=2), set())
