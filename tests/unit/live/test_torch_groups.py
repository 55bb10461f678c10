"""Sums by ``torch.distributed``: as long as links need, and a lost member is an error of a connection."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from runtime.live.tasks.collectives.torch_groups import TorchGroup
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
