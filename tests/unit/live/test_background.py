"""A gradient that is computed in the background: on parameters that stay, while others change."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from runtime.core.job import ApplyOrder, StepOrder
from runtime.live.tasks.background import Background
from runtime.live.tasks.own_replica import replica_state
from runtime.live.tasks.replica_state import ReplicaState
from runtime.live.transport.auth import Identity
from runtime.live.transport.messages import Message, Report
from strategies.protocol import Timings

SIZE = 8
PATIENCE_S = 60.0
"""Far more than any of these tests takes."""


class Worker:
    """Computes a gradient, all ones, when it may."""

    def __init__(self, background: Background) -> None:
        self.links, self.may = background.links, threading.Event()
        self.began = threading.Event()
        self.params: list[float] = []

    def compute(self, ticket: int) -> Report:
        self.began.set()
        assert self.may.wait(PATIENCE_S)
        self.links.receive_params(ticket)
        self.params.append(float(self.links.params[0]))
        self.links.grad.fill(1.0)
        self.links.push(ticket)
        return Report(grad_id=ticket, timings=Timings(), loss=None, sqr_norm=None, finite=True)


@pytest.fixture
def copy() -> ReplicaState:
    return ReplicaState(np.zeros(SIZE, np.float32), {"name": "sgd", "lr": 1.0}, Identity("worker", 0))


@pytest.fixture
def told() -> list[Any]:
    """Reports that were sent, and errors."""
    return []


@pytest.fixture
def background(copy: ReplicaState, told: list[Any]) -> Iterator[Background]:
    made = Background(copy, told.append, told.append)
    yield made
    made.finish()


def update(copy: ReplicaState, version: int, *grads: int) -> None:
    order = ApplyOrder(version=version, grads=grads, weights=(1.0,) * len(grads), lr=1.0, samples=1)
    total = copy.share(order)
    copy.step(order, total)
    copy.release(total)


def test_an_update_meanwhile_changes_neither_what_it_computes_on_nor_its_gradient(
    copy: ReplicaState, background: Background, told: list[Message]
) -> None:
    worker = Worker(background)
    background.begin(lambda: worker.compute(7))
    assert worker.began.wait(PATIENCE_S)
    copy.hold(1, np.full(SIZE, 3.0, np.float32))
    update(copy, 1, 1)
    assert (background.computes, background.arrived(), told) == (True, {}, [])
    worker.may.set()
    background.finish()
    assert (background.computes, worker.params) == (False, [0.0])
    assert [one.grad_id for one in told if isinstance(one, Report)] == [7]
    (grad,) = background.arrived().values()
    copy.hold(7, grad)
    update(copy, 2, 7)
    np.testing.assert_array_equal(copy.params, np.full(SIZE, -4.0))


def test_the_next_gradient_has_the_parameters_of_then_and_a_vector_of_its_own(
    copy: ReplicaState, background: Background
) -> None:
    worker = Worker(background)
    worker.may.set()
    background.begin(lambda: worker.compute(1))
    background.finish()
    copy.params.fill(5.0)
    copy.version = 3
    background.begin(lambda: worker.compute(2))
    background.finish()
    assert (worker.params, background.links.receive_params(2)) == ([0.0, 5.0], 3)
    one, two = background.arrived().values()
    assert not np.shares_memory(one, two)
    assert background.arrived() == {}


def test_it_computes_on_the_workers_own_parameters(told: list[Any]) -> None:
    """While these change, as by an average, and the common ones stay."""
    own = replica_state(np.zeros(SIZE, np.float32), {"name": "sgd", "lr": 1.0}, Identity("worker", 0), {"lr": 1.0})
    background = Background(own, told.append, told.append)
    own.links.params.fill(2.0)
    worker = Worker(background)
    background.begin(lambda: worker.compute(1))
    assert worker.began.wait(PATIENCE_S)
    own.average(lambda total: np.add(total, 4.0, out=total), 2)
    worker.may.set()
    background.finish()
    assert worker.params == [2.0]
    ((ticket, grad),) = background.arrived().items()
    own.hold(ticket, grad)
    own.step_alone(StepOrder(grad_id=ticket, worker=0, lr=0.5, samples=1))
    np.testing.assert_array_equal(own.links.params, np.full(SIZE, 2.5))
    assert not own.params.any()


def test_an_error_ends_the_process(background: Background, told: list[Any]) -> None:
    """Nobody would wait for the thread: the main thread waits for orders."""
    background.begin(lambda: {}["nothing"])
    background.finish()
    assert [type(error) for error in told] == [KeyError]


def test_a_worker_with_parameters_of_its_own_computes_on_these(told: list[Any]) -> None:
    copy = replica_state(np.zeros(SIZE, np.float32), {"name": "sgd", "lr": 1.0}, Identity("worker", 0), {"lr": 1.0})
    copy.links.params.fill(3.0)
    background = Background(copy, told.append, told.append)
    worker = Worker(background)
    worker.may.set()
    background.begin(lambda: worker.compute(1))
    background.finish()
    assert (worker.params, float(copy.params[0])) == ([3.0], 0.0)
