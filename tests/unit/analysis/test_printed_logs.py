"""Printed logs as launchers, clusters and terminals change them, of jobs that were restarted or print now and then."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from analysis.logs.reading import Reading, read_log
from analysis.logs.step_log import LogError, StepLog
from analysis.measures.straggling import straggling
from analysis.reports.whole_steps import whole_steps
from tests.support.log_samples import refusal
from tests.support.written_logs import ENCODINGS

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


WRITTEN: dict[str, Callable[[str], bytes]] = {
    **ENCODINGS,
    "UTF-16, the other order": lambda text: text.encode("utf-16-be"),
    "bytes that are no text": lambda text: b"\xff\xfa garbage \xc3\n" + text.encode(),
    "progress bars": lambda text: text.replace("\n", "\rloading 9%\r\n").encode(),
}


@pytest.mark.parametrize("encoding", WRITTEN)
@pytest.mark.parametrize("name", ["a.log", "a.csv"])
def test_content_says_how_a_file_is_encoded(name: str, encoding: str, tmp_path: Path) -> None:
    if name == "a.log":
        text = titans(lambda rank: f"[rank{rank}]:")
    else:
        rows = [f"{rank},{step},{SLOW if rank == 2 else 1}" for step in range(24) for rank in range(4)]
        text = "\n".join(["rank,step,seconds", *rows, ""])
        if encoding in ("bytes that are no text", "progress bars"):
            return  # of a table they are errors
    assert factors(read(tmp_path / name, WRITTEN[encoding](text))) == [1.0, 1.0, SLOW, 1.0]


def test_processes_without_a_prefix_are_no_restarts_and_validation_is_no_step(tmp_path: Path) -> None:
    """torchtitan prints it under the number of the step before."""
    text = titans(lambda rank: f"[rank{rank}]:")
    validation = "".join(f"[rank{rank}]:{titan(0, 9).replace('step:', 'validate step:')}\n" for rank in range(4))
    log = read(tmp_path / "a.log", text + validation)
    assert len(log.steps) == 24
    assert not any("more than once" in remark for remark in log.remarks)
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
    assert log.round_s.tolist() == pytest.approx([16.2] * 4)


def test_a_timer_whose_name_was_lost_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    text = "\n".join(line for step in (1, 2) for line in megatron(step) if "optimizer" not in line)
    assert read(tmp_path / "a.log", text).own_s[0].tolist() == pytest.approx([0.1, 0.101, 0.152, 0.103])


def deepspeed(step: int, *, timers: bool = True, number: bool = True, rank: int = 0) -> list[str]:
    """Lines of a step of 0.5 s, of which 0.1 s are sums of gradients; rank 1 takes longer. Half the rate on rank 1."""
    begin, own = f"[2026-11-02 10:00:01,101] [INFO] [logging.py:96:log_dist] [Rank {rank}]", 100 + 60 * rank
    lines = [f"{begin} step={step}, skipped=0, lr=[5e-05], mom=[[0.9, 0.999]]"] if number else []
    if number:
        lines.append(f"{begin} epoch=0/micro_step={step}/global_step={step}, CurrSamplesPerSec={128 / (1 + rank)}, x=1")
    if timers:
        lines.append(f"{begin} time (ms) | fwd_microstep: 1.0 | bwd_microstep: 2.0 | step_microstep: 3.0")
        lines.append(
            f"{begin} time (ms) | fwd: {own} | bwd: 300.0 | bwd_inner: 200.0 | bwd_allreduce: 100.0 | step: 100.0"
        )
    return lines


def test_deepspeed_s_timers_are_of_the_steps_from_the_printed_number_on(tmp_path: Path) -> None:
    """Timers of every step, a number at every tenth."""
    lines = [line for step in range(10, 40) for line in deepspeed(step, number=step % 10 == 0)]
    log = read(tmp_path / "a.log", "\n".join(lines))
    assert log.steps == tuple(range(10, 40))
    assert log.own_s[:, 0].tolist() == pytest.approx([0.5] * 30)
    assert not any("mean of" in remark for remark in log.remarks)


def test_deepspeed_s_steps_of_several_ranks_are_without_sums(tmp_path: Path) -> None:
    text = "\n".join(line for step in range(1, 25) for rank in range(2) for line in deepspeed(step, rank=rank))
    log = read(tmp_path / "a.log", text)
    assert log.ranks == ("0", "1")
    assert log.own_s[3].tolist() == pytest.approx([0.4, 0.46])
    assert log.round_s[3] == pytest.approx(0.56)
    lines = [line for step in range(1, 25) for line in (*deepspeed(step), megatron(step, timers=False)[0])]
    more = read(tmp_path / "a.log", "\n".join(lines))
    assert more.own_s[:, 0].tolist() == pytest.approx([0.162] * 24), "what trains with its help says more"


@pytest.mark.parametrize("batch", [64, None])
def test_deepspeed_without_timers_has_samples_per_second(batch: int | None, tmp_path: Path) -> None:
    about = [f"[2026] [INFO] [config.py:1:print] [Rank 0]   train_batch_size ............. {batch}"] if batch else []
    lines = [line for step in range(1, 25) for rank in range(2) for line in deepspeed(step, timers=False, rank=rank)]
    log = read(tmp_path / "a.log", "\n".join([*about, *lines]))
    assert log.own_s[3].tolist() == pytest.approx([0.5, 1.0] if batch else [0.75, 1.5])
    assert any("wall_clock_breakdown" in remark for remark in log.remarks)
    assert any("only relative times" in remark for remark in log.remarks) == (batch is None)


def test_deepspeed_s_engine_for_stages_prints_means(tmp_path: Path) -> None:
    line = "steps: {} loss: 12.6435 iter time (s): 23.560 samples/sec: 0.679"
    log = read(tmp_path / "a.log", "\n".join(line.format(step) for step in range(10, 300, 10)))
    assert log.own_s[:, 0].tolist() == pytest.approx([235.6] * 29)
    assert "29 rows of 10 steps, 6,832 s in all; the median step takes 23.56 s" in whole_steps(log)


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
    "fwd 1.2.3": ("\n".join(deepspeed(1)).replace("fwd: 100", "fwd: 1.2.3"), 4),
    "CurrSamplesPerSec fast": ("\n".join(deepspeed(1)).replace("=128.0", "=fast"), 2),
    "time (ms) 1.2.3": ("iter 4: loss 1.0, time 3.0ms\niter 5: loss 1.0, time 1.2.3ms", 2),
    "time (ms) 1.2.4": ("step:4/9 train_time:9ms step_avg:1ms\nstep:5/9 train_time:1.2.4ms step_avg:1ms", 2),
    "ranks 300000000": (SCORES.format(score="0.5").replace("/4", "/300000000"), 2),
}


@pytest.mark.parametrize("says", BAD)
def test_a_number_that_is_none_is_named_with_its_line(says: str, tmp_path: Path) -> None:
    text, line = BAD[says]
    (tmp_path / "a.log").write_text(text)
    said = refusal(tmp_path / "a.log")
    assert said.startswith(f": line {line}: {says}")
    assert said.endswith("correct or remove that line")
    assert len(said) < 400


NO_TIMES = {
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


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """Of files of other tools without times of steps."""
    for name, (content, says) in NO_TIMES.items():
        (tmp_path / name).write_bytes(content)
        assert re.search(says, refusal(tmp_path / name)), name


STRAGGLAR = (
    "\x1b[92mRank {rank} | Step {step} | Forward Time: 1490.00 ms | Backward Time: {backward:.2f} ms  | Loss: 6.1 | "
    "Iteration Time: {whole:.2f} ms | AR Time: {sums:.2f} ms | AR Buffer Size: 12549804.00 KB\x1b[0m"
)
SUM_MS = 117.0
"""Of the last rank, which waits for nobody; as on four A100 (StragglAR, motivation, Llama 3.2 3B)."""


def straggl_ar(late_ms: dict[int, float], steps: int = 50) -> list[str]:
    """Four ranks; others than the last wait in the all-reduce."""
    backward = [3020.0 + late_ms.get(rank, 0.0) for rank in range(4)]
    last = max(backward)
    return [
        STRAGGLAR.format(rank=rank, step=step, backward=own, whole=1650 + last, sums=SUM_MS + last - own)
        for step in range(steps)
        for rank, own in enumerate(backward)
    ]


def test_ranks_that_differ_by_little_are_no_stragglers(tmp_path: Path) -> None:
    """As in that measurement: rank 2 is the last one in all steps, by half a percent."""
    (tmp_path / "a.log").write_text("\n".join(straggl_ar({2: 20.0})))
    found = straggling(read_log(tmp_path / "a.log"), barrier=True, slow_frac=0.1, ranks_per_host=None)
    assert not found.units
    assert found.ranks.set_index("rank")["share"]["2"] == pytest.approx(1.0)
    assert found.slowdown == pytest.approx(1.004, abs=0.001)


def test_a_time_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("\n".join(straggl_ar({}, 1)).replace("AR Time: 117.00", "AR Time: long", 1))
    with pytest.raises(LogError, match="line 1: AR Time long: must be a number"):
        read_log(tmp_path / "a.log")


def read_lines(path: Path, *lines: str) -> StepLog:
    path.write_text("\n".join(lines))
    return read_log(path)


@pytest.mark.parametrize(
    "line",
    [
        "iter {}: loss 10.9118, time 27488.56ms, mfu -100.00%",
        "iter {}: loss 10.8160, grad_norm 2.0590, lr 0.00e+00, time 27488.56ms",
        "iter {}: loss 4.6250, iter time: 27488.56ms, t: 4096",
        "step {:5d} | loss: 10.837882 | lr: 6.0000e-05 | norm: 1.4973 | dt: 27488.56ms | tok/sec: 252.31",
        "step {:05d}/10000 (99.99%) | loss: 5.757840 | lrm: 0.05 | dt: 27488.56ms | tok/sec: 6,134 | mfu: 72.44",
    ],
)
def test_programs_made_from_nanogpt_have_the_time_of_a_step(line: str, tmp_path: Path) -> None:
    log = read_lines(tmp_path / "a.log", *(line.format(step) for step in range(30)))
    assert log.steps == tuple(range(30))
    assert log.own_s[:, 0].tolist() == pytest.approx([27.48856] * 30)
    assert any("clock of rank 0" in remark for remark in log.remarks)


def test_times_of_training_until_then_become_times_of_steps(tmp_path: Path) -> None:
    """As modded-nanogpt prints them, without the time of validation; the median of a record on 8 H100 was 61 ms."""
    step_ms = [120, 41, 19, *[61, 62, 60] * 99]
    until = np.cumsum(step_ms).tolist()
    lines = [f"step:{step}/300 train_time:{ms}ms step_avg:{ms / step:.2f}ms" for step, ms in enumerate(until, 1)]
    lines.insert(250, f"step:250/300 val_loss:4.0687 train_time:{until[249] + 14}ms step_avg:61.03ms")
    source = ['print0(f"step:{step}/{train_steps} train_time:{training_time_ms:.0f}ms step_avg:")']
    log = read_lines(tmp_path / "a.log", *source, *lines)
    assert log.steps == tuple(range(1, 301))
    assert log.own_s[:, 0].tolist() == pytest.approx([each / 1e3 for each in step_ms])
    assert any("a step may be off by 1.6%" in remark for remark in log.remarks)
    assert any("the median step takes 0.061 s" in line for line in whole_steps(log))


def test_a_restarted_job_counts_from_its_start(tmp_path: Path) -> None:
    lines = [f"step:{step}/99 train_time:{100 * step}ms step_avg:1.0ms" for step in [*range(1, 20), *range(1, 30)]]
    log = read_lines(tmp_path / "a.log", *lines)
    assert log.own_s[:, 0].tolist() == pytest.approx([0.1] * 29)
    lines = [f"step:{step}/900 train_time:{61 * step}ms step_avg:61.0ms" for step in range(10, 400, 10)]
    log = read_lines(tmp_path / "a.log", *lines)
    assert log.own_s[:, 0].tolist() == pytest.approx([0.61] * 39), "of ten steps each"
