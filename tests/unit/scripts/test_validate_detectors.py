"""The real jobs of docs/detectors.md: own work from operators, labels of their publishers, scores, and the page."""

from __future__ import annotations

import csv
import hashlib
from collections import defaultdict
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest

from analysis.experiments.spec import Prediction
from scripts.measure import validate_detectors
from scripts.measure.validate_detectors import Job, jobs, judged, log_of, main, passes
from stragglab.tables.predictor_rates import scores_of
from tests.support.runs import ROOT

ST = ROOT / "injectors" / "traces" / "bytedance" / "slice-ST.parquet"
ALIBABA = ROOT / "tests" / "logs" / "public" / "alibaba_job_1_norm.csv.gz"
STEPS, SLOW_S, STEP_S = 30, 3.0, 4.0
OPERATORS = ("dp_rank", "stage", "step", "seq_id", "optype", "start_ts", "duration")


@pytest.mark.parametrize("stage", ["", "1"])
def test_own_work_is_the_sum_of_a_ranks_passes_and_a_step_lasts_from_the_first_operator_to_the_last(stage: str) -> None:
    log, own_s, begins, ends = passes(ST, stage), defaultdict[tuple[int, str], float](float), {}, {}
    for row in pd.read_parquet(ST).to_dict("records"):
        step, begin_s, end_s = row["step"], row["start_ts"], row["start_ts"] + row["duration"]
        begins[step], ends[step] = min(begins.get(step, begin_s), begin_s), max(ends.get(step, end_s), end_s)
        if row["optype"] in ("forward-compute", "backward-compute") and stage in ("", str(row["stage"])):
            own_s[step, f"{row['dp_rank']}/{row['stage']}"] += row["duration"]
    found = {
        (step, rank): log.own_s[row, column]
        for row, step in enumerate(log.steps)
        for column, rank in enumerate(log.ranks)
    }
    assert found == pytest.approx(own_s)
    assert log.round_s == pytest.approx([ends[step] - begins[step] for step in log.steps])


def test_a_label_covers_the_steps_that_its_publishers_show_and_the_oracle_has_no_regret() -> None:
    """Worker 6 has 14 samples from 1,811 to 1,941 s, in most of which it is the slowest of the ten."""
    (job,) = (one for one in jobs() if one.job == "Alibaba 1")
    found = judged(job, log_of(job, ALIBABA))
    slow = found.rows[found.rows["label"]]
    assert slow["worker"].unique().tolist() == [6]
    assert len(slow) == 14
    slowest = found.rows.loc[found.rows.groupby("iteration")["iter_s"].idxmax()].set_index("iteration")["worker"]
    assert (slowest.loc[slow["iteration"]] == 6).sum() >= 12
    assert found.rank_hours == pytest.approx(300 * 10 * 10 / 3600)
    assert not found.rows["t"].diff().lt(0).any()
    score = scores_of(found.rows, [], found.plan, {"oracle": Prediction(name="oracle")})["oracle"]
    best = {"f1": 1.0, "score": 1.0, "located_frac": 1.0, "abstained_frac": 0.0, "caught_frac": 1.0, "delay_iters": 0.0}
    assert {name: score[name] for name in best} == best


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two jobs of three replicas, of which one is three times as slow or none, and an index that names them."""
    index: list[tuple[str, ...]] = [tuple(field.name for field in fields(Job))]
    for name, slow in (("ill", "1/0"), ("well", "")):
        path = tmp_path / "web" / "org" / "jobs" / "c0ffee" / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(OPERATORS)
            for step in range(STEPS):
                for replica in range(3):
                    seconds = SLOW_S if f"{replica}/0" == slow else 1.0
                    begin_s = STEP_S * step
                    writer.writerow((replica, 0, step, 0, "forward-compute", begin_s, 0.4 * seconds))
                    writer.writerow((replica, 0, step, 0, "backward-compute", begin_s + 0.4 * seconds, 0.6 * seconds))
                    writer.writerow((replica, 0, step, 0, "grads-reduce-scatter", begin_s + seconds, STEP_S - seconds))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        index.append((name, "one", slow, "", "", "", "", "org/jobs", "c0ffee", f"{name}.csv", digest))
    with (tmp_path / "index.csv").open("w", newline="") as file:
        csv.writer(file).writerows(index)
    monkeypatch.setattr(validate_detectors, "INDEX", tmp_path / "index.csv")
    return tmp_path


def test_the_page_has_f1_of_labelled_jobs_and_accusations_of_others(published: Path) -> None:
    """The last value accuses the right one from the second step on: F1 = 2 x 29 / (30 + 29). Nobody else is accused."""
    page = published / "page.md"
    words = ["--files", str(published / "files"), "--source", (published / "web").as_uri(), "--report", str(page)]
    assert main(words) == 0
    head, _, ill, well, alarms = (
        line.strip("| ").split(" | ") for line in page.read_text().splitlines() if line[:1] == "|"
    )
    last, chance = head.index("last value"), head.index("by chance")
    assert (ill[0], well[0]) == ("ill: 3 ranks, 30 steps", "well: 3 ranks, 30 steps")
    assert ill[last] == "0.98"
    assert [cell for place, cell in enumerate(well) if place > 1 and place != chance] == ["0 %"] * (len(head) - 3)
    numbers = pd.read_csv(published / "images" / "detectors-public.csv").set_index(["job", "predictor"])
    mine = numbers.loc["well", "by_chance"]
    assert mine["rank_hours"] == pytest.approx(3 * STEPS * STEP_S / 3600)
    assert alarms[chance] == f"{1000 * mine['false_alarms'] / mine['rank_hours']:,.0f}"
    assert mine["false_alarms"] > 0
    assert numbers.loc["ill", "nvrx:threshold=0.5"]["f1"] > 0.9, "the other settings are in the file alone"


def test_a_file_that_is_not_there_is_refused_in_one_line(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--files", str(published / "files"), "--source", "file:///nowhere"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("validate_detectors: --source file:///nowhere: ")
    assert error.count("\n") == 1
