"""Frames of the data plane and messages of the control plane: what is none is refused; and vectors in memory."""

from __future__ import annotations

import mmap

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.vectors import aligned_vector
from runtime.live.transport.frames import HEADER_BYTES, as_bytes, pack, unpack
from runtime.live.transport.messages import MalformedMessage, decode


@given(st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES))
def test_a_header_of_somebody_else_is_refused(data: bytes) -> None:
    with pytest.raises(ConnectionError, match="refused"):
        unpack(data)


@pytest.mark.parametrize("kind", [0, 5, 255])
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(ConnectionError, match="refused"):
        unpack(pack(kind, 0, 0, 0, 0))


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
