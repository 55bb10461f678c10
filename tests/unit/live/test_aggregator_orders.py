"""The thread of an aggregator that adds and sends: sums, what is said of them, and what comes too late. No socket."""

from __future__ import annotations

import select
import time

import numpy as np
import pytest

from runtime.live.tasks.aggregator import Outbound
from runtime.live.tasks.reduction import Sum
from runtime.live.transport.messages import LinkLost, Message, Summed

LONG_S = 20.0
"""Nobody waits for so long unless something is broken."""


class Links:
    """In the place of the connections to servers: keeps what is pushed."""

    def __init__(self) -> None:
        self.grad = np.zeros(2, np.float32)
        self.generation = 3
        self.pushed: list[tuple[int, list[float]]] = []
        self.gone = False

    def push(self, ticket: int) -> None:
        if self.gone:
            raise ConnectionResetError("server 0 is gone")
        self.pushed.append((ticket, self.grad.tolist()))


class Bench:
    """An outbound over such links."""

    def __init__(self) -> None:
        self.links = Links()
        self.outbound = Outbound(self.links)  # type: ignore[arg-type]

    def put(self, number: int, *parts: float, generation: int = 3, since_s: float = 0.0) -> Sum:
        made = Sum(number, list(range(len(parts))), since_s, [np.full(2, part, np.float32) for part in parts])
        self.outbound.put((generation, made))
        return made

    def said(self, count: int) -> list[Message | Sum]:
        """So many things that were done, whenever they are."""
        found: list[Message | Sum] = []
        while len(found) < count:
            assert select.select([self.outbound.wakes], [], [], LONG_S)[0], found
            found += self.outbound.take()
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_all_parts_are_in_the_sum_once_and_their_buffers_come_back(bench: Bench) -> None:
    made = bench.put(9, 1.0, 2.0, 4.0)
    said, back = bench.said(2)
    assert bench.links.pushed == [(9, [7.0, 7.0])]
    assert isinstance(said, Summed)
    assert (said.grad_id, said.members) == (9, (0, 1, 2))
    assert back is made


def test_the_time_of_a_sum_begins_with_its_order(bench: Bench) -> None:
    bench.put(9, 1.0, since_s=time.perf_counter() - 100.0)
    said, _ = bench.said(2)
    assert isinstance(said, Summed)
    assert said.send_s >= 100.0


def test_a_sum_of_another_generation_is_not_sent_and_its_buffers_come_back(bench: Bench) -> None:
    made = bench.put(9, 1.0, generation=2)
    assert bench.said(1) == [made]
    assert bench.links.pushed == []


def test_a_server_that_is_gone_is_said_and_the_next_sum_is_tried(bench: Bench) -> None:
    bench.links.gone = True
    made = bench.put(8, 1.0)
    assert bench.said(2) == [LinkLost(generation=3, reason="server 0 is gone"), made]
    bench.links.gone = False
    bench.put(9, 2.0)
    assert len(bench.said(2)) == 2
    assert bench.links.pushed == [(9, [2.0, 2.0])]
