"""What a launcher without a zygote does: every worker is a new interpreter that imports torch and takes one step."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from bench.launch import PeerError

TIMEOUT_S = 100.0
WORKER = """
import json, torch
from bench import models
model = models.build("mlp")
models.backward(model, *models.batch("mlp", {rank}))
private = [line.split() for line in open("/proc/self/smaps_rollup") if line.startswith("Private_")]
print(json.dumps(sum(int(fields[1]) * 1024 for fields in private)), flush=True)
input()
"""


def start(num_workers: int) -> dict[str, object]:
    """``ready_s`` until the last worker has taken its first step (imports included), ``unique_bytes`` of each."""
    begun = time.perf_counter()
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER.format(rank=rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for rank in range(num_workers)
    ]
    try:
        # All stay alive until the last has answered, so that shared pages count as shared.
        unique = [_answer(worker) for worker in workers]
        return {"ready_s": time.perf_counter() - begun, "unique_bytes": unique}
    finally:
        for worker in workers:
            worker.kill()
            worker.wait(TIMEOUT_S)


def _answer(worker: subprocess.Popen[str]) -> int:
    assert worker.stdout
    line = worker.stdout.readline()  # a worker that hangs falls to the launcher's time-out, with everything else
    if not line:
        raise PeerError(f"a cold worker died with code {worker.wait(TIMEOUT_S)}")
    return int(json.loads(line))
