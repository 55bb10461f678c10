"""Files of other tools without times of steps are refused with what is missing in them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.log_samples import refusal

FILES = {
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


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    for name, (content, says) in FILES.items():
        (tmp_path / name).write_bytes(content)
        assert re.search(says, refusal(tmp_path / name)), name
