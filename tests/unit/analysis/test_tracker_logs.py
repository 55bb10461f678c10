"""Logs that trackers and trainers keep: made by their libraries (tests/logs/made/README.md), with known slow steps."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.logs.reading import read_log
from analysis.logs.roles import roles_of
from analysis.logs.step_log import LogError, StepLog, Untimed, rounds_s
from analysis.measures.straggling import straggling
from stragglab.commands import advise
from tests.support.runs import ROOT

PUBLIC = ROOT / "tests" / "logs" / "public"
MADE = ROOT / "tests" / "logs" / "made"
PLANTED = {12, 22, 32}
"""Steps of every sample that took 0.2 s longer."""
HOLD_THEM = ("mlflow_history.json", "throughput.metrics.csv", "wandb_history.jsonl")
HOLD_THEM += ("events.out.tfevents.1795950020.host.1092.0",)


def slowest(log: StepLog, count: int = 3) -> set[int]:
    return {log.steps[place] for place in np.argsort(-log.own_s[:, 0])[:count]}


def history(folder: Path, records: list[dict[str, Any]]) -> StepLog:
    """Of an object per line."""
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    return read_log(folder / "a.jsonl")


@pytest.mark.parametrize("name", HOLD_THEM)
def test_the_planted_steps_are_the_slowest(name: str) -> None:
    log = read_log(MADE / name)
    assert slowest(log) == PLANTED
    excess_s = np.sort(log.own_s[:, 0])[-3:] - np.median(log.own_s[:, 0])
    assert excess_s == pytest.approx([0.2] * 3, abs=0.03)


def test_the_slow_steps_of_a_history_are_slow_in_loading(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert advise.main([str(MADE / "wandb_history.jsonl"), "-o", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr().out
    assert "slow steps are longer in loading (9" in shown
    assert "the first steps get shorter and shorter: a warm-up of 1, left out below" in shown
    records = [json.loads(line) for line in (MADE / "wandb_history.jsonl").read_text().splitlines()][2:]
    loading, whole = (sum(each[f"train/{name}_time"] for each in records) for name in ("data", "step"))
    assert f"data-bound: steps wait for data {loading / whole:.1%} of the time" in shown


def test_a_timer_that_leaves_out_loading_does_not_hold_slow_loading_and_says_so() -> None:
    log = read_log(MADE / "nemo.metrics.csv")
    assert len(log.steps) == 40
    assert log.own_s.max() < 0.05
    assert any("begins after loading" in remark for remark in log.remarks)


def test_a_folder_of_mlflow_s_store_is_the_same_as_its_history(tmp_path: Path) -> None:
    log, history = read_log(MADE / "mlflow_run"), read_log(MADE / "mlflow_history.json")
    assert slowest(log) == PLANTED
    assert log.own_s == pytest.approx(history.own_s)
    (tmp_path / "metrics" / "train").mkdir(parents=True)
    (tmp_path / "metrics" / "train" / "step_time").write_text("1795950085442 0.5 0\n1795950085942 0.5\n")
    with pytest.raises(LogError, match="train/step_time: line 2: must be milliseconds, a value and a step"):
        read_log(tmp_path)


def test_other_json_in_a_folder_does_not_hide_its_log(tmp_path: Path) -> None:
    """Trainers leave their settings beside event files, and MLflow has a folder of artifacts."""
    shutil.copy(MADE / HOLD_THEM[-1], tmp_path)
    (tmp_path / "config.json").write_text('{"a": 1}')
    log = read_log(tmp_path)
    assert slowest(log) == PLANTED
    assert any("passed over: " in remark and "config.json" in remark for remark in log.remarks)
    shutil.copytree(MADE / "mlflow_run", tmp_path / "run")
    (tmp_path / "run" / "artifacts").mkdir()
    (tmp_path / "run" / "artifacts" / "model.json").write_text('{"a": 1}')
    assert slowest(read_log(tmp_path / "run")) == PLANTED


def test_deepspeed_s_timers_hold_slow_forward_passes() -> None:
    """Its forward passes slept in the calls 12, 22 and 32 from 0, and its steps count from 1."""
    log = read_log(MADE / "deepspeed.log")
    assert len(log.steps) == 40
    assert slowest(log) == {step + 1 for step in PLANTED}


def test_mini_batch_times_of_alibaba_need_no_names_and_its_straggler_costs_most() -> None:
    log = read_log(PUBLIC / "alibaba_job_1_norm.csv.gz")
    assert log.steps[:3] == (1, 11, 21)
    assert log.own_s[0, :2].tolist() == [476.0, 509.0]
    assert any("normalised" in remark for remark in log.remarks)
    # Of job 1 its authors say: straggler (worker 6) emerges in the middle of the training.
    worst = straggling(log, barrier=True, slow_frac=0.1).units[0]
    assert worst.group.name == "rank 6"
    assert worst.course.kind == "transient"


CANNOT_TELL = {
    "trainer_state.json": "trained 40 steps in 2.122 s, of which 2 evaluations took 0.0597 s (2.8%); its state has no",
    "lightning.metrics.csv": "its metrics (epoch, train_loss, val_loss) do not say how long a step took; log",
}


@pytest.mark.parametrize("name", CANNOT_TELL)
def test_a_log_that_cannot_tell_says_what_it_can_and_what_to_log(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(Untimed):
        read_log(MADE / name)
    assert advise.main([str(MADE / name), "-o", str(tmp_path / "out")]) == 1
    assert CANNOT_TELL[name] in capsys.readouterr().out


def test_a_trainer_s_state_with_a_metric_of_seconds_is_read(tmp_path: Path) -> None:
    """A callback that logs ``step_time`` puts it into the state."""
    state = json.loads((MADE / "trainer_state.json").read_text())
    for record in state["log_history"]:
        if "loss" in record:
            record["step_time"] = 2.0 if record["step"] == 7 else 1.0
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps(state))
    log = read_log(path)
    assert len(log.steps) == 40
    assert slowest(log, 1) == {7}


def telemetry(path: Path, *, ranks: int = 1, slow: int | None = None) -> Path:
    """Records of four ranks as DiLoCo's telemetry has them, in milliseconds."""
    records = [
        {"step": step, "rank": rank, "wall_time_ms": 200.0, "compute_time_ms": 150.0 if rank == slow else 100.0,
         "sync_blocked_ms": 45.0 if rank == slow else 95.0, "loader_stall_ms": 5.0, "loss": 1.0, "did_outer_step": True}
        for step in range(24) for rank in range(ranks)
    ]  # fmt: skip
    path.write_text(json.dumps({"run_id": "a", "samples": [1.0, 2.0], "step_records": records}))
    return path


def test_telemetry_has_parts_and_ranks(tmp_path: Path) -> None:
    log = read_log(telemetry(tmp_path / "a.json", ranks=4, slow=2))
    assert log.ranks == ("0", "1", "2", "3")
    assert log.own_s[0].tolist() == pytest.approx([0.105, 0.105, 0.155, 0.105])
    assert log.round_s is not None
    assert log.round_s.tolist() == pytest.approx([0.2] * 24)
    alone = read_log(telemetry(tmp_path / "b.json"))
    assert alone.own_s[0].tolist() == pytest.approx([0.2])
    records = json.loads((tmp_path / "a.json").read_text())["step_records"]
    assert history(tmp_path, records).own_s.tolist() == log.own_s.tolist(), "one object per line"
    assert alone.data_s is not None
    assert alone.data_s[0].tolist() == pytest.approx([0.005])


def test_records_without_a_rank_are_left_out_and_counted_and_a_step_may_be_called_otherwise(tmp_path: Path) -> None:
    lines = [{"step": step, "rank": rank, "step_time": 1.0 + (rank or 0)} for step in range(9) for rank in (0, 1, None)]
    log = history(tmp_path, lines)
    assert log.ranks == ("0", "1")
    assert any("9 values without a rank" in remark for remark in log.remarks)
    lines = [{"key": "step_time", "name": "a", "value": 1.0 + step, "iteration": step} for step in range(9)]
    assert history(tmp_path, lines).own_s[:, 0].tolist() == [1.0 + step for step in range(9)]


def test_lines_of_a_trainer_that_are_named_json_have_a_time_beside_that_of_loading(tmp_path: Path) -> None:
    """As detectron2 and OpenMMLab write them; the latter writes evaluations between them, with a count of epochs."""
    lines = [
        {"data_time": 0.1, "rank_data_time": 0.1, "iteration": 20 * row, "lr": 1e-3, "loss": 2.0, "time": 0.4, "eta": 9}
        for row in range(1, 25)
    ]
    lines.insert(9, {"iteration": 1, "coco/bbox_mAP": 0.2, "time": 7.0, "data_time": 6.0})
    (tmp_path / "metrics.json").write_text("\n".join(map(json.dumps, lines)))
    log = read_log(tmp_path / "metrics.json")
    assert log.steps == tuple(range(20, 481, 20))
    assert log.own_s[:, 0].tolist() == pytest.approx([0.4] * 24)
    assert log.data_s is not None
    assert log.data_s[:, 0].tolist() == pytest.approx([0.1] * 24)


def test_records_of_ranks_in_a_folder_may_be_objects_by_epoch_and_step(tmp_path: Path) -> None:
    for rank in range(3):
        steps = {f"{step:04d}": {"global_step": step, "step_time": 1.0 + rank} for step in range(24)}
        epochs = {"0": dict(list(steps.items())[:12]), "1": dict(list(steps.items())[12:])}
        content = {"config": {"rank": rank}, "updates": epochs, "minival": {"0": {"0": {"global_step": 0, "loss": 1}}}}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(content))
    log = read_log(tmp_path)
    assert (log.ranks, len(log.steps)) == (("0", "1", "2"), 24)
    assert log.own_s[5].tolist() == [1.0, 2.0, 3.0]
    assert any("if ranks wait for each other within it, a slow rank does not show" in each for each in log.remarks)
    (tmp_path / "rank1.json").write_text("{}")
    with pytest.raises(LogError, match=r"rank0\.json: is no Chrome trace"):
        read_log(tmp_path)


NAMES = {
    "whole": (
        *("train_step_timing in s", "perf/step_time_ms", "iteration-time", "train/iter_time", "timing_s/step"),
        "time_metrics/end_to_end(s)",
    ),
    "loading": ("time_metrics/data_loading(s)", "throughput/loading_time", "trainDataTime"),
    "sending": ("all_reduce_time",),
    "computing": ("forward-backward-time",),
    "clock": ("_timestamp", "Wall time", "Relative Time (Process)"),
}
"""Of NeMo, MaxText, Megatron-LM, litgpt, verl, torchtitan, Levanter, Weights & Biases and TensorBoard."""
OTHERS = ("time_metrics/data_loading(%)", "validation_step_timing in s", "train/device/batches_per_sec", "loss", "lr",
          "eval_runtime", "tokens_per_sec", "max_step_time", "train/time_remaining", "data/epoch")  # fmt: skip


def test_names_that_programs_use_have_their_meaning() -> None:
    for name in [*(name for names in NAMES.values() for name in names), *OTHERS]:
        roles = roles_of([name])
        meant = [role for role, names in NAMES.items() if name in names]
        assert [role for role in NAMES if name in getattr(roles, role)] == meant, name
    assert roles_of(["_step", "trainer/global_step", "loss"]).step == "trainer/global_step"
    assert roles_of(["_step", "loss"]).step == "_step"
    assert roles_of(["loss"]).step is None


def test_a_row_per_metric_and_step_is_read(tmp_path: Path) -> None:
    """As MLflow and others export: of a table, and of the JSON of its REST interface."""
    metrics = json.loads((MADE / "mlflow_history.json").read_text())["metrics"]
    rows = [f"{each['run_id']},{each['key']},{each['value']},{each['step']},{each['timestamp']}" for each in metrics]
    (tmp_path / "a.csv").write_text("\n".join(["run_id,key,value,step,timestamp", *rows]))
    assert slowest(read_log(tmp_path / "a.csv")) == PLANTED
    only_loss = [row for row in rows if ",loss," in row]
    (tmp_path / "b.csv").write_text("\n".join(["run_id,key,value,step,timestamp", *only_loss]))
    by_clock = read_log(tmp_path / "b.csv")
    assert slowest(by_clock) == PLANTED
    assert any("differences of the times" in remark for remark in by_clock.remarks)


def test_rows_far_apart_are_said_to_hide_slow_steps(tmp_path: Path) -> None:
    log = history(tmp_path, [{"step": step, "step_time": 1.0} for step in range(0, 500, 10)])
    assert any("one step of every 10" in remark for remark in log.remarks)


def test_a_gap_of_a_clock_is_no_slow_step(tmp_path: Path) -> None:
    lines = [{"step": step, "_timestamp": 1.7e9 + 0.5 * step, "loss": 1.0} for step in range(0, 900, 10)]
    del lines[40:60]
    log = history(tmp_path, lines)
    assert log.own_s[:, 0].tolist() == pytest.approx([5.0] * 69)
    assert any("the mean of every 10 steps and counts it as one that took as long as all" in it for it in log.remarks)


def test_a_part_that_is_logged_now_and_then_is_not_used(tmp_path: Path) -> None:
    """It does not take 0 s in the other steps."""
    lines = [{"step": step, "step_time": 1.0, "iter_time": 1.0, "data_time": 0.6} for step in range(90)]
    for line in lines:
        if line["step"] % 10:
            del line["data_time"], line["iter_time"]
    log = history(tmp_path, lines)
    assert log.data_s is None
    assert any("data_time is missing in 90% of the steps and not used" in remark for remark in log.remarks)


def test_a_part_that_is_longer_than_the_step_is_not_used(tmp_path: Path) -> None:
    """In another unit it would leave no own work, and its rank would be a straggler."""
    rows = [f"{step},{rank},1.0,{300.0 if rank else 0.2}" for step in range(30) for rank in range(2)]
    (tmp_path / "a.csv").write_text("\n".join(["step,rank,step_time,allreduce_time", *rows]))
    log = read_log(tmp_path / "a.csv")
    assert log.comm_s is None
    said = "allreduce_time is not used: it is as long as step_time or longer in 50% of the steps"
    assert any(said in remark for remark in log.remarks)


def test_rows_of_ranks_without_a_known_name_are_refused(tmp_path: Path) -> None:
    """The last rank of every step would stand for all of them."""
    rows = [f"{step},{gpu},{1.5 if gpu == 2 else 1.0}" for step in range(30) for gpu in range(8)]
    (tmp_path / "a.csv").write_text("\n".join(["step,gpu,step_time_s", *rows]))
    with pytest.raises(LogError, match="has step 0 twice, and its steps do not increase 210 times"):
        read_log(tmp_path / "a.csv")


BAD = {
    "endless lists": ("[" + "[]," * 13_000_000 + "1]", "holds more than 12000000 values"),
    "no JSON": ('{"step": 1', "is no JSON"),
    "no steps": ('{"a": 1}\n{"a": 2}', "is no log that is known here"),
    "no numbers": ('{"step": 1, "note": "x"}', "do not say how long a step took"),
    "a step between": ('{"step": 1.5, "step_time": 1}', "step 1.5: must be a whole number"),
    "long names": (json.dumps({"step": 1, "data " * 20_000: 1.0}), "do not say how long a step took"),
    "a step that is no number": ('{"key": "step_time", "value": 1, "step": "a"}', "step nan: must be a whole number"),
    "a list for a name": ('{"key": [1], "value": 1, "step": 1}', "do not say how long a step took"),
    "a list for a value": ('{"key": "step_time", "value": [1], "step": 1}', "do not say how long a step took"),
    "a long number": (f'{{"step": 1, "step_time": 1{"0" * 400}}}', "do not say how long a step took"),
    "a long step": (f'{{"step": 1{"0" * 400}, "step_time": 1}}', "step nan: must be a whole number"),
    "a text for a time": ('{"step": 1, "loss": 1, "train_runtime": "long"}', "do not say how long a step took"),
    "no time": ('{"step": 1, "loss": 1, "eval_runtime": 1, "train_runtime": 0}', "do not say how long a step took"),
    "brackets": ("[" * 100_000, "is no JSON"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_lines_are_one_clear_line(kind: str, tmp_path: Path) -> None:
    text, says = BAD[kind]
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(LogError, match=says):
        read_log(tmp_path / "a.jsonl")


TRACES = [path for path in PUBLIC.glob("*.json.gz") if "diloco" not in path.name]
SHORT_LINES = re.compile(r"iteration +(\d+)/ *\d+ \|.*elapsed time per iteration \(ms\): ([\d.]+)")


def seconds_of_trace(path: Path) -> dict[int, float]:
    """By step, as JSON says it."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    steps = [event for event in events if event["name"].startswith("ProfilerStep") and event.get("ph") == "X"]
    steps = [event for event in steps if event.get("cat") != "gpu_user_annotation"]
    return {int(re.sub(r"\D", "", event["name"])): event["dur"] / 1e6 for event in steps}


def seconds_of_output(path: Path) -> dict[int, float]:
    """By iteration; every one is printed."""
    return {int(step): float(ms) / 1e3 for step, ms in SHORT_LINES.findall(path.read_text())}


@pytest.mark.parametrize("path", sorted([*TRACES, *PUBLIC.glob("*.out")]), ids=lambda path: path.name)
def test_a_public_file_has_the_steps_and_times_that_anybody_can_count(path: Path) -> None:
    counted = seconds_of_output(path) if path.suffix == ".out" else seconds_of_trace(path)
    log = read_log(path)
    assert len(log.steps) > 0
    assert dict(zip(log.steps, rounds_s(log).tolist(), strict=True)) == pytest.approx(counted, rel=1e-5)
