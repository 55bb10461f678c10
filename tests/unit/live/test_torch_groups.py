"""Sums by ``torch.distributed``: as long as links need, and a lost member is an error of a connection."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from runtime.backends.devices.fake import FakeDevice
from runtime.backends.devices.staging import Staging
from runtime.core.job import ApplyOrder
from runtime.core.vectors import aligned_vector
from runtime.live.tasks.collectives.device_group import DeviceGroup
from runtime.live.tasks.collectives.torch_groups import DEADLINE, TorchGroup
from runtime.live.tasks.replica_state import ReplicaState
from runtime.live.transport.auth import Identity
from runtime.live.transport.messages import Peer


class Work:
    """A sum over slow links, which takes ten minutes."""

    def __init__(self, vector: Any, lost: bool) -> None:
        self.vector, self.lost = vector, lost

    def wait(self, deadline: timedelta) -> None:
        if deadline < timedelta(minutes=10):
            raise RuntimeError("Operation timed out!")
        if self.lost:
            raise RuntimeError("Connection closed by peer\nmore")
        self.vector *= 2


class Members:
    """A group of two members with equal vectors."""

    def __init__(self, lost: bool) -> None:
        self.lost = lost

    def allreduce(self, vectors: list[Any]) -> Work:
        return Work(vectors[0], self.lost)


def group_of(monkeypatch: pytest.MonkeyPatch, *, lost: bool = False) -> TorchGroup:
    monkeypatch.setattr(TorchGroup, "_make", lambda *_: Members(lost))
    monkeypatch.setattr(TorchGroup, "meeting_place", lambda *_: None)
    found = TorchGroup("", Identity("worker", 0), "", lambda: None)
    found.form(0, [Peer(worker, 0, None) for worker in range(2)])  # type: ignore[arg-type]
    return found


def test_a_sum_may_take_as_long_as_its_links_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gave up would lose a healthy member, and have a vector that is still written to."""
    vector = np.ones(4, np.float32)
    group_of(monkeypatch).all_reduce(vector)
    assert vector.tolist() == [2.0] * 4


def test_a_lost_member_is_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionError, match=r"^Connection closed by peer$"):
        group_of(monkeypatch, lost=True).all_reduce(np.ones(4, np.float32))


SIZE = 48
ME = Identity("worker", 0)


class Doubling:
    """A group of two members with equal vectors."""

    def allreduce(self, vectors: list[Any]) -> Any:
        (vector,) = vectors
        vector *= 2
        return SimpleNamespace(wait=lambda deadline: deadline == DEADLINE)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> DeviceGroup:
    monkeypatch.setattr(DeviceGroup, "_make", lambda *_: Doubling())
    monkeypatch.setattr(DeviceGroup, "meeting_place", lambda *_: None)
    found = DeviceGroup("", ME, "", lambda: None, Staging(FakeDevice(), SIZE))
    found.form(0, [Peer(worker, 0, None) for worker in range(2)])  # type: ignore[arg-type]
    return found


def computed(group: DeviceGroup, value: float) -> Any:
    params, grad = aligned_vector(SIZE), aligned_vector(SIZE)
    params[:] = value
    group.staging.bring(params, grad)
    group.staging.grad.copy_(group.staging.params)
    group.staging.take()
    return grad


def test_a_gradient_that_is_on_the_device_is_summed_there(group: DeviceGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    grad = computed(group, 3)
    group.as_computed = True
    monkeypatch.setattr(FakeDevice, "upload", None)
    group.all_reduce(grad)
    assert (grad == 6).all()


def test_another_vector_is_brought_there_first(group: DeviceGroup) -> None:
    computed(group, 3)
    for value in (5, 7):
        total = aligned_vector(SIZE)
        total[:] = value
        group.all_reduce(total)
        assert (total == 2 * value).all()


def order(grads: tuple[int, ...], weights: tuple[float, ...] = (0.5, 0.5)) -> ApplyOrder:
    return ApplyOrder(grads=grads, weights=weights, lr=0.1, samples=8, version=1)


@pytest.mark.parametrize(
    ("held", "named", "weights", "only"),
    [
        ((4,), (4, 5), (0.5, 0.5), True),
        ((4,), (4, 5), (0.5, 0.25), False),
        ((3, 4), (3, 4), (0.5, 0.5), False),
        ((3,), (3, 5), (0.5, 0.5), False),
        ((), (5, 6), (0.5, 0.5), False),
    ],
)
def test_when_the_share_is_the_last_gradient_as_it_was_computed(
    held: tuple[int, ...], named: tuple[int, ...], weights: tuple[float, ...], only: bool
) -> None:
    """The model has computed gradient 4 last; those of others are not here."""
    copy = ReplicaState(np.zeros(SIZE, np.float32), {"name": "sgd", "lr": 0.1}, ME)
    kept = {}
    for grad in held:
        copy.grad[:] = grad
        kept[grad] = copy.grad.copy()
        copy.push(grad)
    assert copy.shares_only(order(named, weights), 4) == only
    if only:
        np.testing.assert_array_equal(copy.share(order(named, weights)), kept[4])
