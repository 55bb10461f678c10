"""Runs for TensorBoard, MLflow and in the manner of MLPerf, read back by those who wrote the formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.records.load import Run, load_run
from analysis.sinks import mllog
from analysis.sinks.errors import SinkError
from analysis.sinks.exporting import SINKS, export
from analysis.sinks.series import evaluations, iterations, settings
from stragglab.commands import export as script
from tests.support.cli import run_cli
from tests.support.records import bsp_story


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return load_run(bsp_story().write(tmp_path / "runs" / "a"))


@pytest.mark.long(like="test_lines_of_mlperf")
def test_tensorboard_reads_what_was_written(run: Run, tmp_path: Path) -> None:
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard (pip install tensorboard)"
    )
    folder = export(run.path, "tensorboard", str(tmp_path / "boards"))
    found = reader.EventAccumulator(folder, size_guidance={"scalars": 0})
    found.Reload()
    points = [*evaluations(run), *iterations(run)]
    assert set(found.Tags()["scalars"]) == {point.name for point in points}
    for name in found.Tags()["scalars"]:
        wanted = [(point.step, pytest.approx(point.value, rel=1e-6)) for point in points if point.name == name]
        assert [(event.step, event.value) for event in found.Scalars(name)] == wanted
    assert __import__("tensorboard.compat", fromlist=["tf"]).tf.__version__ == "stub", "all of TensorFlow was imported"


def test_mlflow_has_settings_metrics_and_files(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracking = pytest.importorskip("mlflow.tracking", reason="needs mlflow (pip install mlflow)")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a store without a database
    where = (tmp_path / "store").as_uri()
    logged = tracking.MlflowClient(tracking_uri=where).get_run(export(run.path, "mlflow", where))
    assert logged.data.params["strategy"] == run.job["strategy"]
    assert set(settings(run)) == set(logged.data.params)
    assert logged.data.metrics["jct_s"] == pytest.approx(run.end_s)
    assert logged.info.status == "FINISHED"


def test_lines_of_mlperf(run: Run, tmp_path: Path) -> None:
    path = Path(export(run.path, "mllog", str(tmp_path / "out")))
    lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text().splitlines()]
    assert {tuple(line) for line in lines} == {("namespace", "time_ms", "event_type", "key", "value", "metadata")}
    by_key = {line["key"]: line for line in lines}
    assert by_key["global_batch_size"]["value"] == run.job["global_batch_samples"]
    assert by_key["run_start"]["event_type"] == "INTERVAL_START"
    assert by_key["run_stop"]["time_ms"] - by_key["run_start"]["time_ms"] == pytest.approx(run.end_s * 1000, abs=1)
    times = [line["time_ms"] for line in lines]
    assert times == sorted(times)
    assert sum(line["key"] == "eval_accuracy" for line in lines) == len(list(evaluations(run))) > 0


def test_a_file_of_somebody_else_is_not_overwritten_and_an_earlier_log_is(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine.log"
    mine.write_text("words\n")
    (tmp_path / "out").mkdir()
    place = tmp_path / "out" / f"{run.path.name}.log"
    for put in (lambda: place.symlink_to(mine), lambda: mine.rename(place)):
        put()
        with pytest.raises(SinkError, match="exists and is no log of MLPerf"):
            export(run.path, "mllog", str(tmp_path / "out"))
        assert place.read_text() == "words\n"
        place.unlink()
    assert export(run.path, "mllog", str(tmp_path / "out")) == export(run.path, "mllog", str(tmp_path / "out"))


@pytest.mark.parametrize("cut", [False, True])
def test_only_who_gets_to_the_target_is_successful(cut: bool, tmp_path: Path) -> None:
    for target, aborted in (
        (0.25, ""),
        (0.99, "its time was up" if cut else "target missed"),
        (None, "its time" * cut),
    ):
        told = bsp_story(target=target)
        if cut:
            told.lines[-1]["note"]["epochs_done"] = 0
            told.meta["job"]["max_time_s"] = told.lines[-1]["t"]
        *_, last = mllog.lines(load_run(told.write(tmp_path / str(target))))
        assert (last["key"], last["metadata"]["status"]) == ("run_stop", "aborted" if aborted else "success")
        assert last["metadata"]["reason"].startswith(aborted or "done")


def test_a_library_that_is_missing_is_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    assert script.main([str(run.path), "--to", "mlflow"]) == 2
    assert "mlflow.exceptions is not installed (pip install mlflow)" in capsys.readouterr().err
    for words in (["--to", "paper"], []):
        assert script.main([str(run.path), *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_run_goes_there_when_it_ends(tmp_path: Path) -> None:
    words = ("runtime=virtual", "workload=ledger", "backend=numpy", "workload.epochs=1", "straggler=none", "view=none")
    done = run_cli(*words, "draw=false", "hydra/callbacks=mllog", "hydra.run.dir=runs/a", cwd=tmp_path)
    assert done.exit_code == 0, done.err
    assert "mllog: runs/mllog/a.log" in done.err
    assert ":::MLLOG" in (tmp_path / SINKS["mllog"] / "a.log").read_text()
