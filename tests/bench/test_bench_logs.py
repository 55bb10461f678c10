"""Reading and diagnosing logs of a thousand ranks, next to `pandas` reading the same files.

Every measurement is a fresh process, in turns: processor time, and the largest memory of the process. Imports are left
out of the time. The job has one slow host from the middle on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import pytest

from tests.support.runs import ROOT

from .goals import at_most
from .report import Report, table

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

RANKS, STEPS, TURNS = 1_000, 200, 3
TIMES_PANDAS, PEAK_MIB = 10.0, 450
"""Limits a little above what was first measured (9 times, 393 MiB): they notice what becomes slower."""
HEAD = """
import json, resource, sys, time
from pathlib import Path
import pandas as pd
from analysis.logs.reading import Reading, read_log
from analysis.logs.table import Columns
from analysis.measures.straggling import straggling

path = Path(sys.argv[1])
begun = time.process_time()
{}
took = time.process_time() - begun
print(json.dumps([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
OURS = """
log = read_log(path, Reading(Columns(compute="own_s", host="group")) if path.is_file() else Reading())
found = straggling(log, barrier=True, slow_frac=0.1).units
assert [unit.group.name for unit in found] == ["host gpu-003 (all 8 ranks)"], [unit.group.name for unit in found]
"""
PANDAS = """
files = [path] if path.is_file() else sorted(path.glob("*.*"))
read = pd.read_parquet if files[0].suffix == ".parquet" else pd.read_csv
frame = pd.concat([read(one) for one in files])
frame.groupby(["rank", "step"])["seconds"].max()
"""


def times_s(ranks: int, steps: int) -> np.ndarray:
    """[steps, ranks]: own work."""
    work = 0.4 * np.exp(0.02 * np.random.default_rng(0).standard_normal((steps, ranks)))
    work[steps // 2 :, 24:32] *= 1.25
    return work


def parts(work: np.ndarray, rank: int) -> pd.DataFrame:
    """A rank's steps in the form of ``export --as steps``."""
    whole = work.max(axis=1) + 0.05
    seconds = {"computing": work[:, rank], "communication": whole - work[:, rank], "step": whole}
    begin_s = np.concatenate([[0.0], np.cumsum(whole)[:-1]])
    frames = [
        pd.DataFrame({"step": range(len(work)), "part": part, "begin_s": begin_s, "seconds": each})
        for part, each in seconds.items()
    ]
    return pd.concat(frames).assign(rank=rank, group=f"gpu-{rank // 8:03d}")


def write(form: str, root: Path) -> Path:
    """A folder with a file per rank, or one table."""
    path = root / form
    if form == "one table":
        work = times_s(1_024, 1_000)
        step, rank = (each.ravel() for each in np.indices(work.shape))
        columns = {"rank": rank, "step": step, "group": [f"gpu-{one // 8:03d}" for one in rank]}
        columns |= {"seconds": work.max(axis=1)[step] + 0.05, "own_s": work.ravel()}
        pd.DataFrame(columns).to_csv(path.with_suffix(".csv"), index=False)
        return path.with_suffix(".csv")
    path.mkdir()
    work = times_s(RANKS, STEPS)
    for rank in range(RANKS):
        found, file = parts(work, rank), path / f"steps.rank{rank}.{form}"
        found.to_parquet(file) if form == "parquet" else found.to_csv(file, index=False)
    return path


@pytest.mark.parametrize("form", ["csv", "parquet", "one table"])
def test_a_thousand_ranks(form: str, tmp_path: Path, report: Report) -> None:
    path, found = write(form, tmp_path), dict[str, list[tuple[float, float]]]()
    for _ in range(TURNS):
        for who, code in (("ours", OURS), ("pandas", PANDAS)):
            words = [sys.executable, "-c", HEAD.replace("{}", code), str(path)]
            done = subprocess.run(words, cwd=ROOT, capture_output=True, check=True)
            found.setdefault(who, []).append(tuple(json.loads(done.stdout)))
    took = {who: median(each for each, _ in rounds) for who, rounds in found.items()}
    peak = {who: max(each for _, each in rounds) for who, rounds in found.items()}
    ratio = median(ours / peer for (ours, _), (peer, _) in zip(found["ours"], found["pandas"], strict=True))
    verdicts = [
        at_most("read and diagnosed / read by pandas", ratio, TIMES_PANDAS, "x"),
        at_most("largest memory, MiB", peak["ours"], PEAK_MIB, "MiB"),
    ]
    rows = [[who, f"{took[who]:.1f}", f"{peak[who]:.0f}"] for who in took]
    report.judge(f"logs of many ranks: {form}", verdicts, extra=table(["by", "s", "MiB"], rows))
