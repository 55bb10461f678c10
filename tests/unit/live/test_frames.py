"""Frames of the data plane and messages of the control plane: what is none is refused; and vectors in memory."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from runtime.core.vectors import aligned_vector
from runtime.live.tasks.store import Store
from runtime.live.transport import bfloat16
from runtime.live.transport.bfloat16 import bfloat16_vector, decode, encode
from runtime.live.transport.frames import HEADER_BYTES, PARAMS, POST, as_bytes, pack, unpack
from tests.unit.live.test_datalink import GENERATION, Line, Servers
from tests.unit.live.test_store import TALLY, order, vector


@given(st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES))
def test_a_header_of_somebody_else_is_refused(data: bytes) -> None:
    with pytest.raises(ConnectionError, match="refused"):
        unpack(data)


def test_an_unknown_kind_is_refused() -> None:
    for kind in (0, 5, 255):
        with pytest.raises(ConnectionError, match="refused"):
            unpack(pack(kind, 0, 0, 0, 0))


def test_vectors_begin_at_a_page() -> None:
    for num_floats in (0, 1, 1023, 1024):
        vector = aligned_vector(num_floats)
        assert (vector.shape, vector.dtype, vector.any()) == ((num_floats,), np.float32, False)
        assert vector.ctypes.data % mmap.PAGESIZE == 0
    as_bytes(vector)[:4] = np.float32(1.5).tobytes()
    assert vector[0] == 1.5


Bits = NDArray[np.uint32]
TWINS = [pytest.param(False, id="python")] + ([pytest.param(True, id="compiled")] if bfloat16._compiled else [])
ODD = [
    0x7F800000,
    0xFF800000,
    0x7F7FFFFF,
    0x7F800001,
    0x7FFFFFFF,
    0xFFFFFFFF,
    0x00000001,
    0x80000000,
    0x3F808000,
    0x3F818000,
]
"""Infinities, the largest number, NaNs, the smallest, zero, ties to even down and up."""


@pytest.fixture(params=TWINS)
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(bfloat16, "_compiled", None)


def check(bits: Bits) -> None:
    floats, into, back = bits.view(np.float32), bfloat16_vector(len(bits)), np.empty(len(bits), np.float32)
    encode(floats, into)
    decode(into, back)
    theirs = torch.from_numpy(floats.copy()).to(torch.bfloat16)
    expected = theirs.to(torch.float32).numpy()
    numbers = ~np.isnan(expected)
    assert np.array_equal(np.isnan(back), ~numbers), "NaN stays NaN"
    assert back[numbers].tobytes() == expected[numbers].tobytes()
    assert into[numbers].tobytes() == theirs.view(torch.int16).numpy().view(np.uint16)[numbers].tobytes()


@pytest.mark.usefixtures("twin")
def test_pytorch_rounds_alike() -> None:
    rng = np.random.default_rng(0)
    check(rng.integers(0, 1 << 32, 100_001, dtype=np.uint32))
    check(np.array(ODD, np.uint32))
    check(np.arange(1 << 17, dtype=np.uint32) << np.uint32(15))


def test_lengths_that_differ_are_refused() -> None:
    if bfloat16._compiled is None:
        pytest.skip("the twin in Python leaves that to numpy")
    with pytest.raises(ValueError, match="as many"):
        encode(np.zeros(4, np.float32), bfloat16_vector(5))
    with pytest.raises(ValueError, match="as many"):
        decode(bfloat16_vector(5), np.zeros(4, np.float32))


ROUNDED = 1 + 2**-8 + 2**-12
"""Of 8 bits: 1 + 2^-7."""


def sent(grad: NDArray[np.float32]) -> bytes:
    into = bfloat16_vector(len(grad))
    encode(grad, into)
    return into.tobytes()


def test_a_server_adds_up_32_bits_and_sends_16_of_the_present_version() -> None:
    line, store = Line(), Store(vector(ROUNDED), TALLY)
    line.link.use_16_bits(store)
    for ticket in (1, 2):
        line.worker.sendall(pack(POST, GENERATION, ticket, 0, 80) + sent(vector(ROUNDED)))
        line.link.receive(store, GENERATION)
    store.apply(order(1, 1, 2))
    exact = np.float32(ROUNDED) + np.float32(2 * (1 + 2**-7))
    assert store.params.tolist() == vector(float(exact)).tolist()
    for ticket in (3, 4):
        line.link.deliver(store, GENERATION, ticket)
        assert line.header().length == 80
        assert line.read(80) == sent(vector(float(exact)))
    line.close()
    line, store = Line(), Store(vector(1.0), TALLY)
    line.link.use_16_bits(store)
    for version in range(1, 4):
        store.hold(version, vector(2.0))
        store.apply(order(version, version))
        line.link.deliver(store, GENERATION, version)
        assert line.header().version == version
        assert line.read(80) == sent(vector(1.0 + 2.0 * version))
    store.reset()
    line.link.deliver(store, GENERATION, 9)
    line.header()
    assert line.read(80) == sent(vector(1.0)), "also after a rollback"
    line.close()
    line, store = Line(), Store(vector(1.0), TALLY)
    line.link.use_16_bits(store)
    line.worker.sendall(pack(POST, GENERATION, 1, 0, 160) + bytes(160))
    with pytest.raises(ConnectionError, match="a push of 80 bytes"):
        line.link.receive(store, GENERATION)
    line.close()


def test_a_worker_receives_and_pushes_16_bits() -> None:
    servers = Servers(32)
    links = servers.links
    links.bits, links.same_machine = 16, True
    ranges = [(0, 16), (16, 32)]
    links._bfloat16 = [
        (bfloat16_vector(16), links.params[lo:hi], bfloat16_vector(16), links.grad[lo:hi]) for lo, hi in ranges
    ]
    links._views = [(as_bytes(come), as_bytes(go)) for come, _, go, _ in links._bfloat16]
    for number, sock in enumerate(servers.theirs):
        sock.sendall(pack(PARAMS, GENERATION, 5, 9, 32) + sent(vector(number + ROUNDED, size=16)))
    assert links.receive_params(5) == 9
    assert links.params.tolist() == [1 + 2**-7] * 16 + [2.0] * 16
    links.grad[:] = np.arange(32)
    links.push(5)
    for (lo, hi), sock in zip(ranges, servers.theirs, strict=True):
        data = sock.recv(4096)
        assert unpack(data).length == 32
        assert data[HEADER_BYTES:] == sent(np.arange(lo, hi, dtype=np.float32))
    servers.close()
