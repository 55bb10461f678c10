"""The script that fits STAR-ML's model: from drawn and recorded decisions, and the one line of a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import pytest

from predictors.network_file import load_network
from scripts.fitting import train_modes
from scripts.fitting.ring_lessons import asked_at, measured_rows, recorded_rings
from strategies.parts.monitoring.base import cluster_by_ratio
from strategies.star.features import feature_names
from strategies.star.learned import ModeLearner
from strategies.star.measuring import read_took
from strategies.star.times import ModeTimes
from tests.support.cli import run_cli
from tests.support.records import bsp_story

WORDS = ["--draw", "12", "--test", "6", "--epochs", "2"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of star_h that makes some decisions."""
    folder = tmp_path_factory.mktemp("runs")
    done = run_cli(
        *("runtime=virtual", "strategy=star_h", "straggler=on_off", "straggler.kind=slowdown", "backend=none"),
        *("straggler.magnitude=5", "workload.target=null", "workload.epochs=20", "eval_every_s=null", "view=none"),
        *("draw=false", "strategy.redecide_iters=1", f"hydra.run.dir={folder}/star"),
    )
    assert done.exit_code == 0, done.err
    return folder


def test_a_file_is_fitted_that_star_ml_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = list(train_modes.draw_questions(3, 40))
    assert drawn == list(train_modes.draw_questions(3, 40)) != list(train_modes.draw_questions(4, 40))
    for one in drawn:
        assert 4 <= len(one.times_s) <= 16
        assert max(one.times_s) > 1.2 * min(one.times_s)
        assert 30 <= one.phi_samples <= 10_000
        assert [list(group) for group in one.groups] == cluster_by_ratio(one.times_s, 1.2)
    out = tmp_path / "fitted.npz"
    assert train_modes.main([*WORDS, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "0 runs, 24 decisions learnt, " in said
    for kappa in (1.3, 16):
        assert f"6 drawn decisions with kappa {kappa:g} that were not learnt: as STAR-H " in said
    found = load_network(str(out), "modes", feature_names(16))
    assert found.command.startswith("python -m scripts.fitting.train_modes --draw 12")
    assert found.about == "pooled literal"
    assert ModeLearner(use_ml_from_start=True, weights=str(out)).can_decide(16)
    again = tmp_path / "again.npz"
    assert train_modes.main([*WORDS, "--out", str(again)]) == 0
    assert (load_network(str(again), "modes", feature_names(16)).network.parameters == found.network.parameters).all()


def test_decisions_of_a_run_are_read(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run,) = (train_modes.load_run(path) for path in train_modes.find_runs(runs))
    found = list(train_modes.recorded_questions(run))
    assert len(found) > 10
    assert {(len(one.times_s), one.phi_samples) for one in found} == {(4, 300.0)}
    assert max(max(one.times_s) / min(one.times_s) for one in found) == pytest.approx(6.0, rel=0.2)
    assert np.isfinite(train_modes.by_heuristic(found[0], ModeTimes()).targets).all()
    words = [str(runs), "--draw", "0", "--test", "0", "--epochs", "1", "--out", str(tmp_path / "x.npz")]
    assert train_modes.main(words) == 0
    said = capsys.readouterr().out
    assert f"1 runs, {len(found) - len(found) // 5} decisions learnt" in said
    assert f"{len(found) // 5} recorded decisions that were not learnt" in said


class Update(NamedTuple):
    """One of a record: when, of how many samples, and who is outside of the ring from then on."""

    t: float
    samples: int
    apart: frozenset[int]


def measured_in(run_dir: Path) -> dict[str, list[Update]]:
    """What a record says of every mode that was measured, and all updates until then, from its text alone."""
    samples, updates, found = dict[int, int](), list[Update](), dict[str, list[Update]]()
    for text in (run_dir / "events.jsonl").read_text().splitlines():
        line = json.loads(text)
        event = line.get("event", {})
        if event.get("type") == "Arrived":
            samples[event["grad"]["id"]] = event["grad"]["samples"]
        for command in line.get("commands", ()):
            if command["type"] == "Apply":
                apart = frozenset(child for child, _ in command.get("children", ()))
                updates.append(Update(line["t"], sum(samples[grad] for grad in command["grads"]), apart))
        if took := (line.get("state") or {}).get("took"):
            found.setdefault(took, updates[:])
    return found


def test_what_rings_took_is_learnt_from_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = run_cli(
        *("runtime=virtual", "strategy=star_ml", "straggler=on_off", "straggler.kind=slowdown", "backend=none"),
        *("topology=allreduce", "strategy.topology=allreduce", "strategy.learning.use_ml_from_start=false"),
        *("straggler.magnitude=5", "workload.target=null", "workload.epochs=40", "eval_every_s=null", "view=none"),
        *("draw=false", "strategy.redecide_iters=25", "record=events", f"hydra.run.dir={tmp_path}/ring"),
    )
    assert done.exit_code == 0, done.err
    out = tmp_path / "ring.npz"
    words = [str(tmp_path / "ring"), "--topology", "allreduce", "--draw", "5", "--test", "3", "--epochs", "1"]
    assert train_modes.main([*words, "--out", str(out)]) == 0
    (run,) = (train_modes.load_run(path) for path in train_modes.find_runs(tmp_path / "ring"))
    lessons = list(recorded_rings(run))
    assert len(lessons) >= 3
    by_record = measured_in(run.path)
    assert {str(lesson.took) for lesson in lessons} == by_record.keys()
    for said, updates in by_record.items():
        took = read_took(said)
        assert took is not None
        held = updates[-took.updates - 1 :]  # the first of them begins the mode, and is none of its own
        assert took.updates * took.pace.update_s == pytest.approx(held[-1].t - held[0].t, rel=1e-5)
        assert took.pace.samples == pytest.approx(fmean(one.samples for one in held[1:]), rel=1e-5)
        assert {one.apart for one in held[:-1]} == {frozenset(took.mode.apart)}
    own, batch = lessons[0].took.pace, lessons[0].batch_samples
    assert batch == 32.0
    rows = measured_rows(lessons[0], asked_at(lessons[0], 1000.0, 2 * batch, ModeTimes(mode_cost="literal")), 16)
    assert np.exp(rows.log_s + rows.targets) == pytest.approx((1 + 1000 / (2 * own.samples)) * own.update_s)
    said = capsys.readouterr().out
    assert f"1 runs, {5 + train_modes.VARIANTS * len(lessons)} decisions learnt, " in said
    assert "3 drawn decisions that were not learnt: as STAR-H " in said
    learner = ModeLearner(topology="allreduce", use_ml_from_start=True, weights=str(out))
    assert learner.can_decide(16)
    with pytest.raises(ValueError, match="is a model of 30 features instead of 45"):
        ModeLearner(use_ml_from_start=True, weights=str(out))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "holds no decision about modes; record runs of strategy=star_h with stragglers"),
        (["--topology", "allreduce", "--draw", "1", "--test", "0"], "no run that is learnt from (every fifth is left"),
    ],
)
def test_runs_without_decisions_are_refused(
    words: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bsp_story(seed=0, epochs=1).write(tmp_path / "bsp")
    assert train_modes.main([str(tmp_path), *words, "--out", str(tmp_path / "x.npz")]) == 2
    assert reason in capsys.readouterr().err
