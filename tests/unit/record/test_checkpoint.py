"""A checkpoint is whole or not there, and a damaged one is never mistaken for a whole one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from runtime.core.job import ApplyOrder
from runtime.core.vectors import server_range
from runtime.live.tasks.store import Store
from runtime.record.checkpoint import (
    CheckpointError,
    parts_of,
    path_of,
    publish,
    read_checkpoint,
    read_slice,
    write_checkpoint,
)
from runtime.record.recorder import Recorder
from tests.support.runs import ROOT

VALUES = {
    "params": np.arange(5, dtype=np.float32),
    "optimizer.momentum": np.full(3, 0.5, np.float32),
    "optimizer.step": 7,
}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = path_of(tmp_path, 3, 1)
    write_checkpoint(path, 12, b"who has used what", VALUES)
    return path


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@settings(max_examples=15)
@given(
    st.integers(0, 2**63 - 1),
    st.binary(max_size=50),
    st.dictionaries(
        st.sampled_from(["", "a", "b.c", "\N{GREEK SMALL LETTER TAU}"]),
        arrays(np.float32, st.integers(0, 20), elements=st.floats(width=32)),
    ),
)
def test_anything_reads_back(
    tmp_path_factory: pytest.TempPathFactory, version: int, state: bytes, values: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.ckpt"
    write_checkpoint(path, version, state, values)
    read_version, read_state, read_values = read_checkpoint(path)
    assert (read_version, read_state) == (version, state)
    assert {name: value.tobytes() for name, value in read_values.items()} == {n: v.tobytes() for n, v in values.items()}


def test_every_damaged_byte_is_noticed(stored: Path) -> None:
    data = stored.read_bytes()
    assert len(data) < 1000
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        stored.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=stored.name):
            read_checkpoint(stored)


def test_every_lost_end_is_noticed(stored: Path) -> None:
    data = stored.read_bytes()
    for length in range(len(data)):
        stored.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match=stored.name):
            read_checkpoint(stored)
    stored.write_bytes(data + b"\0")
    with pytest.raises(CheckpointError, match=stored.name):
        read_checkpoint(stored)


def refuse_nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """As file systems do that have no unnamed files."""
    real = os.open

    def refuse(path: Any, flags: int, *rest: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", refuse)


@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_the_umask_says_who_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool, umask: int, mode: int
) -> None:
    if not nameless:
        refuse_nameless(monkeypatch)
    before = os.umask(umask)
    try:
        publish(tmp_path / "a", [b"content"])
        Recorder(tmp_path).close()
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {"a": mode, "events.jsonl": mode}


@pytest.mark.parametrize("nameless", [True, False])
def test_what_cannot_be_written_in_full_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    if not nameless:
        refuse_nameless(monkeypatch)
    with pytest.raises(TypeError):
        publish(tmp_path / "a", [b"content", "no bytes"])
    monkeypatch.undo()
    assert names(tmp_path) == []


def python(program: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(program), *words], cwd=ROOT, stdout=subprocess.PIPE)


def test_kills_at_any_time_leave_whole_files(tmp_path: Path) -> None:
    program = """
        import sys
        from pathlib import Path
        import numpy as np
        from runtime.record.checkpoint import path_of, write_checkpoint
        for number in range(100_000):
            values = {"params": np.full(200_000, number, np.float32)}
            write_checkpoint(path_of(Path(sys.argv[1]), number, 0), number, b"state", values)
            path_of(Path(sys.argv[1]), number - 3, 0).unlink(missing_ok=True)
            print(number, flush=True)
    """
    for turn in range(2):
        directory = tmp_path / str(turn)
        directory.mkdir()
        with python(program, str(directory)) as process:
            assert process.stdout
            for _ in range(4 + turn):
                process.stdout.readline()
            time.sleep(turn * 0.0007)
            process.kill()
        assert names(directory)
        for path in directory.iterdir():
            version, _, values = read_checkpoint(path)
            assert path == path_of(directory, version, 0)
            assert (values["params"] == version).all()


def store_parts(directory: Path, vector: np.ndarray[Any, Any], num_servers: int) -> list[Path]:
    """Checkpoint 7 of a vector and its momentum, in the parts of so many servers; the files in no order."""
    for server in range(num_servers):
        lo, hi = server_range(len(vector), num_servers, server)
        values = {"params": vector[lo:hi], "optimizer.momentum": -vector[lo:hi], "optimizer.step": 3}
        write_checkpoint(path_of(directory, 7, server), 5, b"data", values, lo)
    return parts_of(directory, 7)[::-1]


@given(st.integers(0, 300), st.integers(1, 4), st.integers(1, 4))
def test_servers_of_any_layout_read_what_those_of_another_have_stored(
    tmp_path_factory: pytest.TempPathFactory, size: int, before: int, after: int
) -> None:
    vector = np.arange(size, dtype=np.float32)
    parts = store_parts(tmp_path_factory.mktemp("parts"), vector, before)
    for server in range(after):
        lo, hi = server_range(size, after, server)
        version, state, values = read_slice(parts, lo, hi)
        assert (version, state, values["optimizer.step"]) == (5, b"data", 3)
        assert values["params"].tolist() == vector[lo:hi].tolist()
        assert values["optimizer.momentum"].tolist() == (-vector[lo:hi]).tolist()


@pytest.mark.parametrize("size", [0, 5, 12, 40])
def test_a_part_without_a_whole_head_is_no_checkpoint(tmp_path: Path, size: int) -> None:
    (part,) = store_parts(tmp_path, np.arange(8, dtype=np.float32), 1)
    part.write_bytes(part.read_bytes()[:size])
    with pytest.raises(CheckpointError, match=r"server0.ckpt: (not a checkpoint|damaged)"):
        read_slice([part], 0, 8)


def test_a_part_that_is_missing_is_noticed(tmp_path: Path) -> None:
    parts = store_parts(tmp_path, np.arange(96, dtype=np.float32), 3)
    assert read_slice(parts[1:], 0, 64)[2]["params"].tolist() == list(range(64))
    for wrong in (parts[:2], [parts[0], parts[2]], []):
        with pytest.raises(CheckpointError, match=r"do not hold \[0, 96\) of the parameters$"):
            read_slice(wrong, 0, 96)


def test_two_servers_store_and_three_go_on_with_every_bit(tmp_path: Path) -> None:
    """The parameters and the optimizer's state of a job that is cut again are those of one that is not."""
    optimizer = {"name": "adam", "lr": 0.1}
    random = np.random.default_rng(0)
    initial, gradients = random.normal(size=100).astype(np.float32), random.normal(size=(8, 100)).astype(np.float32)

    def train(stores: list[Store], steps: range) -> bytes:
        for store in stores:
            for step in steps:
                store.hold(step, gradients[step][store.lo : store.hi].copy())
                store.apply(ApplyOrder(version=step + 1, grads=(step,), weights=(1.0,), lr=0.1, samples=1))
        return b"".join(store.params.tobytes() for store in stores)

    def cut(num_servers: int) -> list[Store]:
        ranges = [server_range(100, num_servers, server) for server in range(num_servers)]
        return [Store(initial[lo:hi], optimizer, lo=lo) for lo, hi in ranges]

    two, three = cut(2), cut(3)
    train(two, range(4))
    train(three, range(6))  # what they hold is left behind
    for server, store in enumerate(two):
        write_checkpoint(path_of(tmp_path, 1, server), store.version, b"", store.dump(), store.lo)
    for store in three:
        version, _, values = read_slice(parts_of(tmp_path, 1), store.lo, store.hi)
        store.hold(99, np.zeros_like(store.params))
        store.load(version, values)
        assert (store.version, store.grads) == (4, {})
    assert train(three, range(4, 8)) == train(two, range(4, 8))
