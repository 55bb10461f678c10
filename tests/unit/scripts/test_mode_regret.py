"""What STAR's choices lost: a whole job on the virtual clock, replayed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from scripts.fitting import mode_regret as script
from tests.support.cli import run_cli
from tests.support.records import bsp_story

JOB = (
    "runtime=virtual backend=none straggler=on_off straggler.kind=slowdown straggler.magnitude=5 straggler.on_s=2 "
    "straggler.off_s=2 strategy=star_h workload.epochs=null workload.target=null eval_every_s=null max_time_s=8 "
    "draw=false view=none"
)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("regret") / "run"
    assert run_cli(*JOB.split(), f"hydra.run.dir={folder}").exit_code == 0
    return folder


def test_every_second_is_judged_once(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main([str(record)]) == 0
    table = pd.read_csv(record / script.NAME, keep_default_na=False)
    assert table["end_s"].iloc[:-1].tolist() == table["start_s"].iloc[1:].tolist()
    assert (table["best_cost_s"] > 0).all()
    same = table["mode"] == table["best"]
    assert (table.loc[same, "lost_s"].abs() < 1e-9).all()
    assert same.any()
    assert (table["chosen"] != "").any()
    said = capsys.readouterr().out
    assert f"{table['lost_s'].sum():.3g} of 8 s lost by choice" in said


def test_a_straggler_is_noticed_late_and_that_costs(record: Path) -> None:
    """The first slow iteration is over before the mode changes: until then SSGD waits, although the plan is known."""
    table = script.regret_of(record, script.build_strategy(record))
    first = table.iloc[0]
    assert (first["start_s"], first["mode"]) == (0.0, "ssgd")
    assert first["best"] != "ssgd"
    assert first["lost_s"] > 0


def test_without_a_straggler_the_oracle_waits_for_all(record: Path) -> None:
    """As STAR does while nobody straggles; the plan slows a worker for 2 s of every 4."""
    table = script.regret_of(record, script.build_strategy(record))
    slow = (table["start_s"] % 4.0) < 2.0
    assert set(table.loc[~slow, "best"]) == {"ssgd"}
    assert "ssgd" not in set(table.loc[slow, "best"])


def test_a_record_that_is_answered_differently_is_refused(
    record: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(record, copy)
    log = copy / "events.jsonl"
    log.write_text(log.read_text().replace('"lr_scale":1.0', '"lr_scale":0.5', 1))
    assert script.main([str(copy)]) == 2
    assert "is answered differently now; repeat the run" in capsys.readouterr().err


def test_a_run_without_such_a_strategy_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bsp_story().write(tmp_path / "run")
    (folder / ".hydra").mkdir()
    (folder / ".hydra" / "config.yaml").write_text("strategy: {_target_: strategies.basic.bsp.BSP, data: dynamic}\n")
    assert script.main([str(folder)]) == 2
    assert "1 runs, none of them of STAR with servers" in capsys.readouterr().err
