"""Printed logs as launchers, clusters and terminals change them, of jobs that were restarted or print now and then."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from analysis.logs.reading import Reading, read_log
from analysis.logs.step_log import LogError, StepLog

SLOW = 1.5
"""What rank 2 takes, times the usual."""


def megatron(step: int, *, timers: bool = True, every: int = 1) -> list[str]:
    """Lines of an iteration; the timers are of four ranks."""
    lines = [f" iteration {step:8d}/     900 | elapsed time per iteration (ms): 162.0 | global batch size:  64 |"]
    if timers:
        times = [100.0 + rank + (50.0 if rank == 2 else 0.0) for rank in range(4)]
        lines += ["times across ranks (ms):", "  forward-backward:"]
        lines += [f"     rank {rank:2d}: {time:.2f}" for rank, time in enumerate(times)]
        lines += ["  optimizer:", *(f"     rank {rank:2d}: 3.25" for rank in range(4))]
    return lines


def titan(rank: int, step: int) -> str:
    tps = 8000 + 40 * rank - (2700 if rank == 2 else 0)
    return f"[titan] 2026-03-01 09:12:{step:02d},512 - root - INFO - step: {step:2d}  loss:  7.1  tps: {tps:,}  mfu: 9%"


def titans(prefix: Callable[[int], str], steps: range = range(1, 25)) -> str:
    return "".join(f"{prefix(rank)}{titan(rank, step)}\n" for step in steps for rank in range(4))


def read(path: Path, text: str | bytes, reading: Reading = Reading()) -> StepLog:  # noqa: B008 (immutable)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_log(path, reading)


def factors(log: StepLog) -> list[float]:
    """Of every rank, its median step relative to the median rank's."""
    middle = np.median(log.own_s, axis=0)
    return [round(float(each), 1) for each in middle / np.median(middle)]


PREFIXES: dict[str, Callable[[int], str]] = {
    "torchrun": lambda rank: f"[default{rank}]:",
    "torchrun of a role": lambda rank: f"[trainer{rank}]: ",
    "srun": lambda rank: f"{rank}: ",
    "srun of ten nodes": lambda rank: f" {rank}: ",
    "mpirun": lambda rank: f"[1,{rank}]<stdout>:",
    "mpiexec": lambda rank: f"[{rank}] ",
    "kubectl": lambda rank: f"[pod/job-worker-{rank}/pytorch] 2026-03-01T09:12:01.123456789Z ",
    "docker compose": lambda rank: f"worker-{rank}  | ",
    "Ray": lambda rank: f"\x1b[36m(RayTrainWorker pid=40{rank}, ip=10.0.0.{rank})\x1b[0m ",
    "container's log": lambda rank: f"2026-03-01T09:12:01.1Z stdout F [rank{rank}]:",
    "srun and torchrun": lambda rank: f"{rank // 2}: [default{rank % 2}]:",
    "colours": lambda rank: f"[rank{rank}]:\x1b[32m",
}


@pytest.mark.parametrize("launcher", PREFIXES)
def test_who_printed_a_line_is_in_its_prefix(launcher: str, tmp_path: Path) -> None:
    log = read(tmp_path / "a.log", titans(PREFIXES[launcher]))
    assert log.num_ranks == 4
    assert len(log.steps) == 24
    assert factors(log) == [1.0, 1.0, SLOW, 1.0]


@pytest.mark.parametrize("launcher", PREFIXES)
def test_megatron_s_timers_have_the_same_ranks_with_any_prefix(launcher: str, tmp_path: Path) -> None:
    prefix = PREFIXES[launcher](3)
    text = "".join(f"{prefix}{line}\n" for step in range(1, 25) for line in megatron(step))
    log = read(tmp_path / "a.log", text)
    assert log.ranks == ("0", "1", "2", "3")
    assert factors(log) == [1.0, 1.0, SLOW, 1.0]


ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "byte order mark": lambda text: text.encode("utf-8-sig"),
    "UTF-16 of PowerShell": lambda text: text.replace("\n", "\r\n").encode("utf-16"),
    "UTF-16 without a mark": lambda text: text.encode("utf-16-le"),
    "UTF-16, the other order": lambda text: text.encode("utf-16-be"),
    "bytes that are no text": lambda text: b"\xff\xfa garbage \xc3\n" + text.encode(),
    "gzip": lambda text: gzip.compress(text.encode()),
    "Zstandard": lambda text: pa.compress(text.encode(), "zstd", asbytes=True),
    "progress bars": lambda text: text.replace("\n", "\rloading 9%\r\n").encode(),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", ["a.log", "a.csv"])
def test_content_says_how_a_file_is_encoded(name: str, encoding: str, tmp_path: Path) -> None:
    if name == "a.log":
        text = titans(lambda rank: f"[rank{rank}]:")
    else:
        rows = [f"{rank},{step},{SLOW if rank == 2 else 1}" for step in range(24) for rank in range(4)]
        text = "\n".join(["rank,step,seconds", *rows, ""])
        if encoding in ("bytes that are no text", "progress bars"):
            return  # of a table they are errors
    assert factors(read(tmp_path / name, ENCODINGS[encoding](text))) == [1.0, 1.0, SLOW, 1.0]


def test_steps_that_were_done_again_count_once(tmp_path: Path) -> None:
    """Steps 11 to 15 were lost in a crash, and are quicker the second time."""
    again = titans(PREFIXES["torchrun"], range(11, 21)).replace("tps: 8,", "tps: 9,")
    log = read(tmp_path / "a.log", titans(PREFIXES["torchrun"], range(1, 16)) + again, Reading(tokens=8000.0))
    assert log.steps == tuple(range(1, 21))
    assert log.own_s[9:12, 0].tolist() == pytest.approx([1.0, 8 / 9, 8 / 9])
    assert any("5 steps from 11 to 15 are there more than once" in remark for remark in log.remarks)


@pytest.mark.parametrize("timers", [True, False])
def test_megatron_s_steps_that_were_done_again_count_once(timers: bool, tmp_path: Path) -> None:
    steps = [*range(1, 16), *range(11, 21)]
    text = "\n".join(line for step in steps for line in megatron(step, timers=timers))
    log = read(tmp_path / "a.log", text)
    assert log.steps == tuple(range(1, 21))
    assert any("more than once" in remark for remark in log.remarks)


def test_processes_without_a_prefix_are_no_restarts(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"rank 0 has step 1 twice.*--label"):
        read(tmp_path / "a.log", titans(lambda rank: ""))


def test_a_mean_of_ten_steps_takes_as_long_as_ten(tmp_path: Path) -> None:
    """The first line is of one step, as torchtitan prints it, the second of nine: 100 steps of 1 s in all."""
    lines = [f"[rank{rank}]:{titan(0, step)}\n" for step in (1, *range(10, 101, 10)) for rank in range(2)]
    log = read(tmp_path / "a.log", "".join(lines), Reading(tokens=8000.0))
    assert float(log.own_s[:, 0].sum()) == pytest.approx(100.0)
    assert log.own_s[:3, 0].tolist() == pytest.approx([1.0, 9.0, 10.0])
    assert any("the mean of 10 iterations" in remark and "log_freq 1" in remark for remark in log.remarks)


def test_means_after_a_restart_are_of_as_many_steps(tmp_path: Path) -> None:
    text = "\n".join(line for step in (100, 200, 300, 200, 300, 400) for line in megatron(step))
    log = read(tmp_path / "a.log", text)
    assert log.steps == (100, 200, 300, 400)
    assert log.own_s[:, 0].tolist() == pytest.approx([10.0] * 4)
    assert log.round_s is not None
    assert log.round_s.tolist() == pytest.approx([16.2] * 4)


def test_validation_is_no_step(tmp_path: Path) -> None:
    """torchtitan prints it under the number of the step before."""
    text = titans(lambda rank: f"[rank{rank}]:")
    validation = "".join(f"[rank{rank}]:{titan(0, 9).replace('step:', 'validate step:')}\n" for rank in range(4))
    log = read(tmp_path / "a.log", text + validation)
    assert len(log.steps) == 24
    assert not any("more than once" in remark for remark in log.remarks)


def test_a_timer_whose_name_was_lost_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    text = "\n".join(line for step in (1, 2) for line in megatron(step) if "optimizer" not in line)
    assert read(tmp_path / "a.log", text).own_s[0].tolist() == pytest.approx([0.1, 0.101, 0.152, 0.103])


SCORES = """\
GPU relative performance:
 Worst performing 2/4 ranks:
  Rank=2 Node=n1 Score={score}
  Rank=1 Node=n0 Score=0.90
 Best performing 1/4 ranks:
  Rank=0 Node=n0 Score=1.00
"""


def test_a_rank_without_a_score_is_named(tmp_path: Path) -> None:
    log = read(tmp_path / "a.log", "".join(SCORES.format(score=score) for score in ("0.50", "nan", "0.50")))
    assert log.own_s[:, 2].tolist() == pytest.approx([2.0, np.nan, 2.0], nan_ok=True)
    assert log.own_s[1, 3] == pytest.approx(1 / 0.9), "who is not listed lies above the worst known score"
    assert any("rank 2 on n1 (1 of 3)" in remark for remark in log.remarks)
    alone = read(tmp_path / "a.log", SCORES.format(score="nan"))
    assert alone.ranks == ("0", "1", "3")


BAD = {
    "elapsed time per iteration (ms) 1.2.3": (megatron(1)[0].replace("162.0", "1.2.3"), 1),
    "forward-backward 7.0.0": ("\n".join(megatron(1)).replace("101.00", "7.0.0"), 5),
    "rank 99999999999999999999": ("\n".join(megatron(1)).replace("rank  1:", "rank 99999999999999999999:"), 5),
    "iteration 9999999999999999999": (megatron(1)[0].replace("       1/", f"{'9' * 4400}/"), 1),
    "tps ,": ("\n" + titan(0, 1).replace("8,000", ","), 2),
    "step 88888888888888888888": (titan(0, 1).replace("step:  1", f"step: {'8' * 20}"), 1),
    "score 0.4.0": (SCORES.format(score="0.4.0"), 3),
    "score -1": (SCORES.format(score="-1"), 3),
    "rank 300000000": (SCORES.format(score="0.5").replace("Rank=2", "Rank=300000000"), 3),
    "ranks 300000000": (SCORES.format(score="0.5").replace("/4", "/300000000"), 2),
}


@pytest.mark.parametrize("says", BAD)
def test_a_number_that_is_none_is_named_with_its_line(says: str, tmp_path: Path) -> None:
    text, line = BAD[says]
    path = tmp_path / "a.log"
    with pytest.raises(LogError) as caught:
        read(path, text)
    assert str(caught.value).startswith(f"{path}: line {line}: {says}")
    assert str(caught.value).endswith("correct or remove that line")
    assert len(str(caught.value)) < 400 + len(str(path))
