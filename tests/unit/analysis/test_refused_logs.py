"""Files of other tools without times of steps are refused with what is missing in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
    "mlperf.txt": (
        b"\n".join(
            b':::MLLOG {"namespace": "", "time_ms": %d, "event_type": "A", "key": "%s"}' % (ms, key)
            for ms, key in (
                (0, b"run_start"),
                (0, b"block_start"),
                (4000, b"block_stop"),
                (4000, b"eval_start"),
                (5000, b"eval_stop"),
                (5000, b"block_start"),
                (11000, b"block_stop"),
                (12000, b"run_stop"),
            )
        ),
        r"without train_step_time: 1 run took 12 s; 1 evaluation took 1 s; 2 blocks took 10 s "
        r"\(median 5 s, the longest 1.20 times\); the time of no single step is known; log train_step_time",
    ),
    "main.log": (b"s:0 tel:11.0092\ns:0 trl:11.0091 lr:0.000001 norm:15.37\n", "main.log of llm.c"),
    "et.json": (b'{"schema": "1.1.0", "pid": 1, "nodes": [{"id": 2}]}', "execution trace of PyTorch.*no time of any"),
    "runs.csv": (b"Name,State,Created,Runtime,iter\na,finished,2026,732,5000\n", "a list of runs, with a row per run"),
    "port.csv": (
        b"step,port_port1_loss,port_port2_loss\n0,0.5,1.0\n1,0.4,0.9\n",
        r"metrics \(port_port1_loss, .* do not say how long a step took",
    ),
    "other.log": (b"hello\n", "is no log that is known here"),
}


@pytest.mark.parametrize("name", FILES)
def test_what_is_missing_is_said(name: str, tmp_path: Path) -> None:
    content, says = FILES[name]
    (tmp_path / name).write_bytes(content)
    assert re.search(says, refusal(tmp_path / name))
