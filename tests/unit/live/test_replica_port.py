"""Which states of the data service the orders to replicas keep: those of versions to which a loss may lead back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runtime.core.job import ApplyOrder, ComputeOrder
from runtime.live.control.replica_port import ReplicaPort


def port() -> ReplicaPort:
    """One whose orders go nowhere; the state of the data is the number of updates so far."""
    roster: Any = SimpleNamespace(members=SimpleNamespace(here=lambda: (0, 1)), primary=0, incarnation=lambda worker: 1)
    given: Any = SimpleNamespace(now=0.0)
    made = ReplicaPort(given, given, roster, given, given, given)
    given.data_state = lambda: {"updates": len(made.states)}
    made._tell_all = lambda message: None  # type: ignore[method-assign]
    return made


def compute(to: ReplicaPort, grad_id: int, version: int) -> None:
    order = ComputeOrder(
        grad_id=grad_id, worker=0, incarnation=1, version=version, ranges=(), accum=1, delay_s=0.0, slowdown_frac=0.0
    )
    to.compute(order)


def apply(to: ReplicaPort, version: int, *grads: int, apart: tuple[int, ...] = ()) -> None:
    to.apply(ApplyOrder(version=version, grads=grads, weights=(1.0,) * len(grads), lr=0.1, samples=1, excluded=apart))


def test_updates_that_no_replica_is_known_to_have_completed_are_remembered() -> None:
    """Asynchronous: twenty gradients of the first version are used one after another; all replicas may be at 0."""
    made = port()
    for grad in range(20):
        compute(made, grad, 0)
    for grad in range(20):
        apply(made, grad + 1, grad)
    assert sorted(made.states) == list(range(20))
    assert made.data_state(0) == {"updates": 0}


def test_what_every_replica_has_passed_is_forgotten() -> None:
    """A gradient that was computed on version 15: its worker has that, so the others have completed update 14."""
    made = port()
    for grad in range(20):
        compute(made, grad, 0)
        apply(made, grad + 1, grad)
    compute(made, 20, 15)
    apply(made, 21, 20)
    assert sorted(made.states) == list(range(14, 21))


def test_the_version_with_which_a_child_has_left_is_remembered_until_it_comes_back() -> None:
    """A slow child reads that it has left when its gradient is done. Until then it has that version, perhaps alone."""
    made = port()
    for grad in range(20):
        compute(made, grad, grad)
        apply(made, grad + 1, grad, apart=(1,) if grad >= 5 else ())
    assert sorted(made.states) == [5, 16, 17, 18, 19]
    compute(made, 20, 20)
    apply(made, 21, 20)
    assert 5 not in made.states


def test_after_a_rollback_versions_begin_again() -> None:
    made = port()
    compute(made, 0, 40)
    apply(made, 41, 0)
    apply(made, 42, apart=(1,))
    made.discard()
    for grad in range(1, 9):
        apply(made, grad + 2, grad)
    assert 2 in made.states
