"""Lines of programs that count the iterations of epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.logs.reading import read_log
from analysis.logs.step_log import StepLog
from analysis.reports.whole_steps import whole_steps

EVERY = 50
FORMS = {
    "mmengine": "05/11 06:27:33 - mmengine - INFO - Epoch(train) [{e}][{i:3d}/200]  lr: 2.7e-04  eta: 1:16:37  "
    "time: {t}  data_time: {d}  memory: 9752  loss: 0.2",
    "mmengine by iteration": "INFO - Iter(train) [{n:5d}/20000]  lr: 1e-2  eta: 5:00:01  time: {t}  data_time: {d}",
    "mmcv": "mmdet - INFO - Epoch [{e}][{i}/200]\tlr: 1e-2, eta: 1:00:02, time: {t}, data_time: {d}, acc: 9",
    "detectron2": " eta: 0:01:00  iter: {n}  total_loss: 1.2  time: {t}  last_time: 9  data_time: {d}  lr: 1e-3",
    "DETR": "Epoch: [{e}]  [ {i}/200]  eta: 0:10:00  lr: 0.0001  loss: 9 (9.1)  time: {t}  data: {d}  max mem: 4000",
    "PaddleOCR": "ppocr INFO: epoch: [{e}/9], global_step: {n}, lr: 0.001, loss: 3, avg_reader_cost: {d} s, "
    "avg_batch_cost: {t} s, avg_samples: 8.0, ips: 20 samples/s",
    "older PaddleOCR": "root INFO: epoch: [{e}/9], iter: {n}, 'lr': 0.0002, 'loss': 480.9, data_time: {d}, time: {t}",
    "PaddleDetection": "Epoch: [{e}] [{i:3d}/200] lr: 0.1 eta: 1:02:03 batch_cost: {t} data_cost: {d} ips: 9 images/s",
    "milliseconds": "[Epoch 000][Step {n}/900] global_step={n} loss=0.2 step_time=400.0ms data_time=100.0ms tp=5",
}


def read(path: Path, *lines: str) -> StepLog:
    path.write_text("\n".join(lines))
    return read_log(path)


@pytest.mark.parametrize("form", FORMS)
def test_lines_of_epochs_have_times_of_iterations_and_of_loading(form: str, tmp_path: Path) -> None:
    places = [(epoch, place) for epoch in range(1, 4) for place in range(EVERY, 201, EVERY)]
    numbers = [200 * (epoch - 1) + place for epoch, place in places]
    lines = [FORMS[form].format(e=e, i=i, n=n, t=0.4, d=0.1) for (e, i), n in zip(places, numbers, strict=True)]
    lines.insert(4, "Epoch(val) [1][ 50/100]    eta: 0:00:05  time: 9.0  data_time: 8.0")
    log = read(tmp_path / "a.log", *lines)
    assert log.steps == tuple(numbers)
    assert (log.own_s / EVERY)[:, 0].tolist() == pytest.approx([0.4] * len(numbers))
    said = whole_steps(log)
    assert said[0] == "12 rows of 50 steps, 240 s in all; the median step takes 0.4 s"
    assert any("25.0% is loading" in line for line in said)


def test_the_first_iteration_of_an_epoch_does_not_stand_for_those_that_follow(tmp_path: Path) -> None:
    """It waits 4 s for the loader to start; others take 0.4 s: 51 of them take 24.4 s in all."""
    line = "INFO - 0:00:30 - Epoch: [{}][{}]\tTime {:.3f} ({:.3f})\tData {:.3f} ({:.3f})\tLoss 4.2 (4.2)"
    lines = []
    for epoch in range(5):
        lines.append(line.format(epoch, 0, 4.4, 4.4, 4.0, 4.0))
        lines.append(line.format(epoch, 50, 0.4, 24.4 / 51, 0.0, 4 / 51))
    log = read(tmp_path / "a.log", *lines)
    assert log.steps == (50, 100, 150, 200, 250)
    assert (log.own_s / 50)[:, 0].tolist() == pytest.approx([24.4 / 51] * 5, abs=1e-3)
    assert log.data_s is not None
    assert (log.data_s / 50)[:, 0].tolist() == pytest.approx([4 / 51] * 5, abs=1e-3)


def test_an_epoch_with_one_line_has_the_time_of_that_line(tmp_path: Path) -> None:
    lines = [f"Epoch: [{epoch}][0/9]\tTime 0.500 (0.500)\tLoss 1.0 (1.0)" for epoch in range(4)]
    log = read(tmp_path / "a.log", *lines)
    assert log.steps == (0, 9, 18, 27)
    assert log.own_s[1:, 0].tolist() == pytest.approx([4.5] * 3)
