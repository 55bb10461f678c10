"""Files of other tools without times of steps are refused with what is missing in them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from analysis.logs.reading import read_log
from analysis.logs.step_log import LogError

CHAKRA = (
    b"\xda\xd0\x01\x12\x1d\x0a\x06schema\xea\x01\x121.0.2-chakra.0.0.4\x12\x9d\xd0\x01"
    + b"\x0a\x04name\x12\x04node" * 40
)


def tar(member: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        info = tarfile.TarInfo(member)
        info.size = len(CHAKRA)
        archive.addfile(info, io.BytesIO(CHAKRA))
    return file.getvalue()


FILES = {
    "allreduce.0.et": (CHAKRA, "is Chakra's execution trace of one rank.*no steps.*profiler of all ranks"),
    "feeder.tar.gz": (tar("tests/chakra.0.et"), "is an archive.*its first one, tests/chakra.0.et, is Chakra's"),
    "logs.tar.gz": (tar("train.log"), r"is an archive \(tar\): unpack it"),
    "global.log": (
        b"CRITICAL:root:write BW=497.19MB/s\nINFO:root:Build DP clique: [0, 1, 2, 3]!\n",
        "controller of Greyhound.*the time of no single step.*columns rank, step, seconds",
    ),
    "local.log": (b"CRITICAL:root:[Local controller] ID=0 is launched!\n", "controller of Greyhound"),
    "ncclprobe.log": (b"[ncclCommInitRankConfig] nranks=4, rank=0\n", "a probe in NCCL"),
    "output.log": (b"Rank 0 starts redis\nIteration, IterationTime(ms)\nTraining terminated\n", "and no row"),
    "fault_injection.log": (b"Fault ranks: [9, 14]\nRank 9, fault_type: LOCK_GIL\n", "folder with the dumps"),
    "other.log": (b"hello\n", "is no log that is known here"),
}


@pytest.mark.parametrize("name", FILES)
def test_what_is_missing_is_said(name: str, tmp_path: Path) -> None:
    content, says = FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LogError, match=says) as caught:
        read_log(tmp_path / name)
    assert "\n" not in str(caught.value)
