"""Frames of the data plane and messages of the control plane: what goes in comes out, all else is refused."""

from __future__ import annotations

import itertools
import mmap

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.data.shards import Range
from runtime.core.job import ApplyOrder, ComputeOrder
from runtime.core.scoring import Products
from runtime.core.vectors import CUT_FLOATS, aligned_vector, server_range
from runtime.live.transport.address import Address
from runtime.live.transport.frames import ACK, HEADER_BYTES, PARAMS, PUSH, Header, as_bytes, pack, unpack
from runtime.live.transport.messages import (
    PREFIX_BYTES,
    Attach,
    Heartbeat,
    LinksPaced,
    MalformedMessage,
    Message,
    SaveCheckpoint,
    ScoreParts,
    Update,
    Work,
    decode,
    encode,
)

WORD, LONG = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)


# ---- headers --------------------------------------------------------------------------------------------------------


@given(st.sampled_from([PUSH, ACK, PARAMS]), WORD, LONG, LONG, LONG, WORD)
def test_a_header_comes_out_as_it_went_in(
    kind: int, generation: int, ticket: int, version: int, length: int, slot: int
) -> None:
    packed = pack(kind, generation, ticket, version, length, slot)
    assert len(packed) == HEADER_BYTES
    assert unpack(packed) == Header(kind, generation, ticket, version, length, slot)


@given(st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES))
def test_a_header_of_somebody_else_is_refused(data: bytes) -> None:
    with pytest.raises(ConnectionError, match="refused"):
        unpack(data)


@pytest.mark.parametrize("kind", [0, 5, 255])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(ConnectionError, match="refused"):
        unpack(pack(kind, 0, 0, 0, 0))


# ---- vectors --------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(1, 20))
def test_the_servers_parts_make_up_the_whole(num_floats: int, num_servers: int) -> None:
    parts = [server_range(num_floats, num_servers, server) for server in range(num_servers)]
    assert parts[0][0] == 0
    assert parts[-1][1] == num_floats
    assert all(before[1] == after[0] for before, after in itertools.pairwise(parts))
    assert all(lo % CUT_FLOATS == 0 or lo == num_floats for lo, _ in parts)
    sizes = [hi - lo for lo, hi in parts]
    assert max(sizes) - min(sizes) < 2 * CUT_FLOATS


@pytest.mark.parametrize("num_floats", [0, 1, 1023, 1024, 5000])
def test_vectors_begin_at_a_page(num_floats: int) -> None:
    vector = aligned_vector(num_floats)
    assert vector.shape == (num_floats,)
    assert vector.dtype == np.float32
    assert not vector.any()
    assert vector.ctypes.data % mmap.PAGESIZE == 0
    if num_floats:
        as_bytes(vector)[:4] = np.float32(1.5).tobytes()
        assert vector[0] == 1.5


# ---- messages -------------------------------------------------------------------------------------------------------

ORDER = ComputeOrder(
    grad_id=7, worker=1, incarnation=2, version=3, ranges=(Range(0, 5, 0, 32),), accum=1, delay_s=0.1, slowdown_frac=0.0
)
MESSAGES: list[Message] = [
    Heartbeat(),
    Attach(
        generation=1,
        servers=(Address(transport="tcp", host="127.0.0.1", port=1), Address(transport="shm", name="x")),
        ranges=((0, 16), (16, 40)),
    ),
    Work(order=ORDER),
    Update(
        drop=(1, 2),
        apply=ApplyOrder(version=4, grads=(7,), weights=(0.5,), lr=0.1, samples=32),
        deliver=(("worker", 0, 0, 8), ("evaluator", 0, 1, 1 << 48)),
    ),
    SaveCheckpoint(id=0, version=0, state=b"\0\xff", keep_from=0),
    LinksPaced(order=1, achieved={"server:0": 1 << 40, "server:1": None}),
    ScoreParts(grad_id=7, ticket=1 << 49, part=Products(dot=0.1, sqr_grad=1e-300, sqr_ref=1e76)),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_out_as_it_went_in(message: Message) -> None:
    data = encode(message)
    assert int.from_bytes(data[:PREFIX_BYTES], "little") == len(data) - PREFIX_BYTES
    assert decode(data[PREFIX_BYTES:]) == message


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "Nonsense"},
        {"type": "Work"},
        {"type": "Attach", "generation": "first", "servers": []},
        {"type": "Update", "apply": {"version": 1}},
        {"type": "LoadCheckpoint", "id": 1.5, "generation": 0},
        {"generation": 0},
        [],
        None,
    ],
)
def test_a_message_with_wrong_fields_is_refused(fields: object) -> None:
    with pytest.raises(MalformedMessage):
        decode(msgspec.msgpack.encode(fields))
