"""Lines of nanoGPT and of programs made from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.logs.reading import read_log
from analysis.logs.step_log import StepLog
from analysis.reports.whole_steps import whole_steps


def read(path: Path, *lines: str) -> StepLog:
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
    log = read(tmp_path / "a.log", *(line.format(step) for step in range(30)))
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
    log = read(tmp_path / "a.log", *source, *lines)
    assert log.steps == tuple(range(1, 301))
    assert log.own_s[:, 0].tolist() == pytest.approx([each / 1e3 for each in step_ms])
    assert any("a step may be off by 1.6%" in remark for remark in log.remarks)
    assert any("the median step takes 0.061 s" in line for line in whole_steps(log))


def test_a_restarted_job_counts_from_its_start(tmp_path: Path) -> None:
    lines = [f"step:{step}/99 train_time:{100 * step}ms step_avg:1.0ms" for step in [*range(1, 20), *range(1, 30)]]
    log = read(tmp_path / "a.log", *lines)
    assert log.own_s[:, 0].tolist() == pytest.approx([0.1] * 29)
    lines = [f"step:{step}/900 train_time:{61 * step}ms step_avg:61.0ms" for step in range(10, 400, 10)]
    log = read(tmp_path / "a.log", *lines)
    assert log.own_s[:, 0].tolist() == pytest.approx([0.61] * 39), "of ten steps each"
