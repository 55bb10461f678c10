"""What a server holds: gradients until they are used, versions as long as they are read. No socket, no process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from runtime.core.job import ApplyOrder
from runtime.core.vectors import server_range
from runtime.live.tasks.store import Store
from runtime.live.transport import buffers as shared_buffers
from runtime.live.transport.buffers import SharedBuffers, SlotTable, num_slots
from tests.support.examples import examples

Vector = NDArray[np.float32]
SGD: dict[str, Any] = {"name": "sgd", "lr": 0.5, "momentum": 0.9}
TALLY: dict[str, Any] = {"name": "tally", "lr": 1.0}
SIZE = 40
WORKERS = 3


def vector(*values: float, size: int = SIZE) -> Vector:
    return np.resize(np.array(values, dtype=np.float32), size)


def order(version: int, *grads: int, samples: int = 0) -> ApplyOrder:
    """With the tally, the plain sum of the gradients is added."""
    samples = samples or len(grads)
    return ApplyOrder(version=version, grads=grads, weights=(1 / samples,) * len(grads), lr=0.5, samples=samples)


def receive(store: Store, grad_id: int, grad: Vector) -> Vector:
    """As a data link does."""
    buffer = store.buffer()
    buffer[:] = grad
    store.hold(grad_id, buffer)
    return buffer


@pytest.fixture
def buffers() -> Iterator[SharedBuffers]:
    fd = shared_buffers.create()
    yield SharedBuffers(fd, SIZE, WORKERS)
    os.close(fd)


def test_the_order_given_is_the_order_summed_and_a_reset_leads_back_to_the_start() -> None:
    """In float32 it makes a difference, and bit-equal runs need it to be this one."""
    values = {1: 1e8, 2: 1.0, 3: -1e8}
    results = []
    for ids in ((1, 2, 3), (1, 3, 2)):
        store = Store(vector(0.0), TALLY)
        for grad_id in (3, 1, 2):
            receive(store, grad_id, vector(values[grad_id]))
        store.apply(order(1, *ids, samples=1))
        results.append(float(store.params[0]))
    assert results == [0.0, 1.0]
    store = Store(vector(4.0), SGD)
    receive(store, 1, vector(1.0))
    store.apply(order(1, 1))
    receive(store, 2, vector(1.0))
    store.reset()
    assert (store.version, store.grads) == (0, {})
    assert store.params.tolist() == vector(4.0).tolist()
    fresh = Store(vector(4.0), SGD)
    for each in (store, fresh):
        receive(each, 3, vector(1.0, 2.0))
        each.apply(order(1, 3))
    assert store.params.tobytes() == fresh.params.tobytes(), "the momentum starts again, too"


def test_an_update_uses_its_gradients_up_and_their_buffers_are_used_again() -> None:
    store = Store(vector(0.0), TALLY)
    used, dropped, abandoned = receive(store, 1, vector(1.0)), receive(store, 2, vector(1.0)), store.buffer()
    store.apply(order(1, 1))
    assert (store.params.tolist(), store.version) == (vector(1.0).tolist(), 1)
    with pytest.raises(KeyError):
        store.apply(order(2, 1))
    store.drop((2, 99))
    store.release(abandoned)
    again = [store.buffer() for _ in range(3)]
    assert {id(buffer) for buffer in again} == {id(used), id(dropped), id(abandoned)}
    assert store.grads == {}


def test_a_gradient_that_is_used_before_its_worker_goes_on_is_never_copied(buffers: SharedBuffers) -> None:
    """Whoever else receives parameters meanwhile."""
    store = Store(vector(0.0), TALLY, buffers)
    for version in range(1, 5):
        store.deliver(("worker", 1), version)
        buffers.grads[1][:] = version
        store.deliver(("worker", 2), 12)
        store.deliver(("evaluator", 0), 13)
        store.apply(order(version, version))
    assert store.params.tolist() == vector(1 + 2 + 3 + 4).tolist()
    assert not store._spare, "no buffer was ever needed"


class Reader:
    """What a worker or the evaluator sees: slot and what was in it when it was delivered."""

    def __init__(self, slot: int, contents: Vector, ticket: int) -> None:
        self.slot, self.contents, self.ticket = slot, contents.copy(), ticket


ACTION = st.tuples(st.sampled_from(["deliver", "use", "drop", "die", "evaluate"]), st.integers(0, WORKERS - 1))


@examples(25)
@given(st.lists(ACTION, max_size=60), st.integers(1, 3))
def test_servers_choose_alike_and_nobody_reads_what_changes(actions: list[tuple[str, int]], num_servers: int) -> None:
    """Any order of deliveries, updates, drops and deaths, on servers that never talk to each other."""
    fd = shared_buffers.create()
    try:
        shared = SharedBuffers(fd, SIZE, WORKERS)
        parts = [server_range(SIZE, num_servers, server) for server in range(num_servers)]
        stores = [Store(vector(0.0)[lo:hi], TALLY, shared, lo) for lo, hi in parts]
        readers: dict[tuple[str, int], Reader] = {}
        version, ticket = 0, 0
        for action, number in actions:
            who = ("evaluator", 0) if action == "evaluate" else ("worker", number)
            reader = readers.get(who)
            ticket += 1
            if action in ("deliver", "evaluate"):
                for store in stores:
                    store.deliver(who, ticket)
                (slot,) = {store.table.current for store in stores}
                assert shared.slots[slot].tolist() == vector(version).tolist()
                readers[who] = Reader(slot, shared.slots[slot], ticket)
            elif reader is None:
                continue
            elif action == "die":
                del readers[who]
                for store in stores:
                    store.table.release_reader(who)
                    store.drop((reader.ticket,))
            else:
                shared.grads[number][:] = 1.0
                del readers[who]
                version += action == "use"
                for store in stores:
                    if action == "use":
                        store.apply(order(version, reader.ticket))
                    else:
                        store.drop((reader.ticket,))
            for held in readers.values():
                assert shared.slots[held.slot].tolist() == held.contents.tolist()
    finally:
        os.close(fd)


def test_there_is_a_slot_for_everybody() -> None:
    """All workers, the evaluator and the scorer read versions of their own."""
    table = SlotTable(num_slots(WORKERS))
    everybody = [*(("worker", worker) for worker in range(WORKERS)), ("evaluator", 0), ("scorer", 0)]
    slots = []
    for ticket, who in enumerate(everybody):
        slots.append(table.deliver(who, ticket))
        table.advance()
    assert len(set(slots)) == len(everybody)
    assert table.current not in slots
