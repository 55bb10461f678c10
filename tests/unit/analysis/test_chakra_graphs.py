"""Execution traces of Chakra: a published ring, made traces with times, and what one rank alone cannot tell."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from analysis.logs.chakra import Graph, ring_line
from analysis.logs.reading import read_log
from analysis.logs.step_log import LogError, Untimed
from stragglab.commands import advise
from tests.support.log_samples import refusal
from tests.support.runs import ROOT

RING = ROOT / "tests" / "logs" / "public" / "ring_of_8"
GPU = re.compile(rb'<gpu id="(\d+)".*?<tb id="0" send="(\d+)" recv="(\d+)"', re.DOTALL)
"""Of the algorithm's XML, which every trace of the ring has as an attribute."""


def number(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def node(kind: int, micros: int, *, operator: bool = False) -> bytes:
    """A node of a trace, after its length."""
    name = b"is_cpu_op"
    word = b"\x0a" + number(len(name)) + name + b"\xd8\x01" + number(int(operator))
    message = b"\x18" + number(kind) + b"\x38" + number(micros) + b"\x52" + number(len(word)) + word
    return number(len(message)) + message


def written(folder: Path, ranks: dict[int, Iterable[bytes]]) -> Path:
    folder.mkdir(exist_ok=True)
    for rank, nodes in ranks.items():
        (folder / f"trace.{rank}.et").write_bytes(b"".join(nodes))
    return folder


def test_the_ring_is_the_one_that_its_algorithm_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = gzip.decompress((RING / "custom_allreduce.0.et.gz").read_bytes())
    sends = {int(gpu): int(to) for gpu, to, _ in GPU.findall(data)}
    order = [0]
    while (following := sends[order[-1]]) != 0:
        order.append(following)
    assert len(order) == 8
    with pytest.raises(Untimed, match=f"ring of ranks {' -> '.join(map(str, [*order, 0]))}; a graph of work without"):
        read_log(RING)
    assert advise.main([str(RING), "-o", str(tmp_path / "out")]) == 1
    assert "cannot tell which rank is late; name the folder" in capsys.readouterr().out


def test_a_ring_with_missing_files_says_which_and_ranks_that_send_to_several_are_none(tmp_path: Path) -> None:
    for rank in range(4):
        shutil.copy(RING / f"custom_allreduce.{rank}.et.gz", tmp_path)
    ring = r"ring of ranks 7 -> 0 -> 1 -> 2 -> 3 -> 4 \(the files of ranks 4, 7 are missing\)"
    with pytest.raises(Untimed, match=ring):
        read_log(tmp_path)
    assert ring_line({0: Graph(to={1, 2}, source={1}), 1: Graph(to={0}, source={0})}) == ""
    assert ring_line({0: Graph(), 1: Graph()}) == ""


def test_ranks_with_times_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Operators of the host contain their kernels, and do not count."""
    traces = {
        rank: [node(4, 900, operator=True), node(4, 300 if rank == 1 else 200), node(7, 100 if rank == 1 else 200)]
        for rank in range(3)
    }
    log = read_log(written(tmp_path / "a", traces))
    assert log.own_s.tolist() == [pytest.approx([2e-4, 3e-4, 2e-4])]
    assert log.comm_s is not None
    assert log.comm_s.tolist() == [pytest.approx([2e-4, 1e-4, 2e-4])]
    assert advise.main([str(tmp_path / "a"), "-o", str(tmp_path / "out")]) == 1
    assert "slow: rank 1 1.50 times" in capsys.readouterr().out
    (tmp_path / "a" / "other.1.et").write_bytes(node(4, 900) + node(7, 50))
    with pytest.raises(LogError, match=r"trace\.1\.et: is of rank 1, as another one is"):
        read_log(tmp_path / "a")
    written(tmp_path / "b", {0: [node(4, 2_000_000), node(7, 500_000)]})
    says = r"2 nodes of one rank, with 2 s of computing and 0.5 s of communication; .*the traces of all ranks"
    with pytest.raises(Untimed, match=says):
        read_log(tmp_path / "b" / "trace.0.et")


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "zip"])
def test_an_archive_is_named_with_its_files(ending: str, tmp_path: Path) -> None:
    path, data = tmp_path / f"a.{ending}", node(4, 1)
    if ending == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("tests/data/chakra.0.et", data)
    else:
        with tarfile.open(path, "w:gz" if ending == "tar.gz" else "w") as archive:
            info = tarfile.TarInfo("tests/data/chakra.0.et")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with pytest.raises(LogError, match=r"an archive of 1 file \(tests/data/chakra.0.et\); unpack it"):
        read_log(path)


BAD = {
    "a.0.et": (b"", "it has no nodes"),
    "b.0.et": (b"hello, world\n", "is damaged"),
    "c.0.et": (node(4, 9)[:-3], "ends within"),
    "a.et": (node(4, 9), "its name has no rank"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_are_no_traces_are_one_line(name: str, tmp_path: Path) -> None:
    data, says = BAD[name]
    (tmp_path / name).write_bytes(data)
    assert says in refusal(tmp_path / name)


@pytest.mark.few(8)
@pytest.mark.parametrize("seed", range(40))
def test_damaged_traces_are_refused_in_one_line(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    data = bytearray(gzip.decompress((RING / "custom_allreduce.0.et.gz").read_bytes()))
    for place in rng.integers(0, len(data), 20):
        data[place] = int(rng.integers(256))
    (tmp_path / "a.0.et").write_bytes(bytes(data))
    refusal(tmp_path / "a.0.et")
