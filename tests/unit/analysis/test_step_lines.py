"""Lines with a step's number and its seconds, as MaxText, verl and TF-Slim print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.logs.reading import read_log
from tests.support.log_samples import refusal

LINES = {
    "MaxText": "I0317 10:00:17.579063 125344476638336 metric_logger.py:181] completed step: {0}, seconds: {1:.3f}, "
    "TFLOP/s/device: 236.448, Tokens/s/device: 9423.869, total_weights: 30708, loss: nan",
    "verl": "(TaskRunner pid=83) step:{0} - global_seqlen/min:9823 - actor/lr:1e-06 - training/global_step:{0} - "
    "timing_s/gen:{2:.3f} - timing_s/update_actor:0.25 - timing_s/step:{1:.3f} - timing_per_token_ms/gen:0.48 - "
    "perf/throughput:148.91",
    "TF-Slim": "INFO:tensorflow:global step {0}: loss = 2.9544 ({1:.3f} sec/step)",
}
"""As in public logs; ``{0}`` is the step, ``{1}`` its seconds, ``{2}`` those of a part."""


def seconds(step: int) -> float:
    return 1.25 + (0.5 if step % 7 == 0 else 0.0)


def text(program: str) -> str:
    return "\n".join(LINES[program].format(step, seconds(step), seconds(step) - 0.75) for step in range(1, 40))


@pytest.mark.parametrize("program", LINES)
def test_each_line_is_a_step(program: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(f"starting\n{text(program)}\ndone\n")
    log = read_log(tmp_path / "a.log")
    assert log.steps == tuple(range(1, 40))
    assert log.own_s[:, 0].tolist() == pytest.approx([seconds(step) for step in log.steps])


def test_the_part_that_makes_steps_longer_is_known(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(text("verl"))
    log = read_log(tmp_path / "a.log")
    assert sorted(log.part_fracs) == ["gen", "update_actor"]
    assert (log.part_fracs["gen"] * log.own_s)[:, 0].tolist() == pytest.approx(
        [seconds(one) - 0.75 for one in log.steps]
    )


def test_a_number_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("completed step: 3, seconds: 1.2.3, TFLOP/s/device: 1\n")
    assert ": line 1: seconds of a step" in refusal(tmp_path / "a.log")
