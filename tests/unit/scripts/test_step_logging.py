"""``stragglab.logging`` in loops of one's own, and ``export --as steps``: both are read back by ``advise``."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from analysis.logs import parts_table
from analysis.logs.reading import read_log
from analysis.logs.step_log import LogError
from analysis.measures.straggling import straggling
from analysis.sinks.exporting import export
from stragglab import logging
from stragglab.commands import export as script
from stragglab.logging import StepLogger
from tests.support.records import asp_story, bsp_story
from tests.support.runs import ROOT


class Clock:
    """A clock that moves when it is asked to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def perf_counter(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(logging, "time", made)
    return made


def job(folder: Path, clock: Clock, *, ranks: int = 3, steps: int = 24, slow: int = 1) -> Path:
    """Loading 0.1 s (of the slow rank 0.3 s in steps from 12 on), computing 0.4 s, communication up to 1 s."""
    for rank in range(ranks):
        log = StepLogger(folder, rank=rank, group=f"host{rank // 2}, rack 1")

        def batches(rank: int = rank) -> object:
            for step in range(steps):
                clock.now_s += 0.3 if rank == slow and step >= 12 else 0.1
                yield step

        for step in log.steps(batches()):
            with log.part("computing"):
                clock.now_s += 0.4
            with log.part("communication"):
                clock.now_s += 0.3 if rank == slow and step >= 12 else 0.5
        log.close()
    return folder


def test_a_loop_of_one_s_own_is_read_back(tmp_path: Path, clock: Clock) -> None:
    log = read_log(job(tmp_path / "steps", clock))
    assert (log.ranks, log.steps) == (("0", "1", "2"), tuple(range(24)))
    assert log.hosts == ("host0, rack 1", "host0, rack 1", "host1, rack 1")
    assert log.own_s[[0, 20]].ravel().tolist() == pytest.approx([0.5, 0.5, 0.5, 0.5, 0.7, 0.5])
    assert log.data_s is not None
    assert log.data_s[20].tolist() == pytest.approx([0.1, 0.3, 0.1])
    assert log.comm_s is not None
    assert log.comm_s[20].tolist() == pytest.approx([0.5, 0.3, 0.5])
    assert log.round_s is not None
    assert log.round_s.tolist() == pytest.approx([1.0] * 24)
    units = straggling(log, barrier=True, slow_frac=0.1).units
    assert [(unit.group.name, unit.part) for unit in units] == [("rank 1", "loading")]


def test_callbacks_tell_loading_from_the_rest(tmp_path: Path, clock: Clock) -> None:
    """The order in which trainers call: a batch is there, its step ends; an evaluation is no step."""
    log = StepLogger(tmp_path, rank=0)
    log.begin_step()
    for step in range(4):
        clock.now_s += 0.1
        log.loaded()
        clock.now_s += 0.4
        log.end_step()
        if step == 1:
            clock.now_s += 60.0
            log.begin_step()
    rows = pd.read_csv(tmp_path / "steps.rank0.csv")  # complete, should the rank be killed now
    log.close()
    assert rows[rows["part"] == "step"]["seconds"].tolist() == pytest.approx([0.5] * 4)
    assert rows[rows["part"] == "loading"]["seconds"].tolist() == pytest.approx([0.1] * 4)
    assert rows["begin_s"].iloc[0] == pytest.approx(100.0)


WRITTEN = {"trainer_steps": {11, 21, 31}, "lightning_steps": {12, 22, 32}}
"""Folders that our callbacks wrote within the libraries, and the steps in which loading took 0.2 s longer."""


@pytest.mark.parametrize("name", WRITTEN)
def test_slow_loading_within_trainers_is_found_as_such(name: str) -> None:
    log = read_log(ROOT / "tests" / "logs" / "made" / name)
    assert log.data_s is not None
    assert len(log.steps) == 40
    slowest = np.argsort(-log.own_s[:, 0])[:3]
    assert {log.steps[place] for place in slowest} == WRITTEN[name]
    assert log.data_s[slowest, 0] == pytest.approx([0.2] * 3, abs=0.03)
    assert np.median(log.data_s) < 0.01


def test_it_needs_the_standard_library_alone(tmp_path: Path) -> None:
    """Copied elsewhere it works without anything of ours, and takes its rank from the environment."""
    (tmp_path / "copied.py").write_bytes((ROOT / "stragglab" / "logging.py").read_bytes())
    program = "import copied; log = copied.StepLogger('steps'); log.end_step(); log.close()"
    subprocess.run([sys.executable, "-S", "-c", program], cwd=tmp_path, env={"RANK": "3"}, check=True)
    text = (tmp_path / "steps" / "steps.rank3.csv").read_text()
    assert text.startswith(f"{HEAD}3,0,step,")


def test_the_rank_is_what_the_launcher_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank, name in enumerate(("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")):
        for other in logging.RANKS:
            monkeypatch.delenv(other, raising=False)
        monkeypatch.setenv(name, str(rank))
        StepLogger(tmp_path).close()
        assert (tmp_path / f"steps.rank{rank}.csv").exists()


def test_two_processes_do_not_write_the_log_of_one_rank(tmp_path: Path) -> None:
    program = "from stragglab.logging import StepLogger; StepLogger('.', rank=0)"
    log = StepLogger(tmp_path, rank=0)
    log.end_step()
    assert len((tmp_path / "steps.rank0.csv").read_text().splitlines()) == 2, "who reads the log does not end its lock"
    other = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=False
    )
    assert b"steps.rank0.csv: another process writes it, or this one has not closed it; give each" in other.stderr
    log.end_step()
    log.close()
    assert len((tmp_path / "steps.rank0.csv").read_text().splitlines()) == 3
    again = StepLogger(tmp_path, rank=0)
    again.close()
    assert len((tmp_path / "steps.rank0.csv").read_text().splitlines()) == 1, "an earlier log is replaced"


def test_a_part_that_ends_in_an_error_has_no_time(tmp_path: Path, clock: Clock) -> None:
    log = StepLogger(tmp_path, rank=0)
    for step in range(3):
        with contextlib.suppress(ZeroDivisionError), log.part("computing"):
            clock.now_s += 1.0
            1 // (step - 1)
        log.end_step()
    log.close()
    assert read_log(tmp_path).steps == (0, 2)


@pytest.mark.parametrize("story", [bsp_story, asp_story])
def test_an_exported_record_is_the_record(story: object, tmp_path: Path) -> None:
    run = story().write(tmp_path / "runs" / "a")  # type: ignore[operator]
    path = Path(export(run, "steps", str(tmp_path / "out")))
    assert yaml.safe_load(path.with_suffix(".yaml").read_text())["version"] == 1
    assert tuple(pd.read_parquet(path).columns) == parts_table.COLUMNS
    ours, theirs = read_log(run), read_log(path)
    assert theirs.ranks == ours.ranks
    both = ~np.isnan(ours.own_s)
    assert theirs.own_s[: len(ours.steps)][both] == pytest.approx(ours.own_s[both])


def test_as_is_the_same_as_to_and_foreign_files_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = bsp_story().write(tmp_path / "runs" / "a")
    assert script.main([str(run), "--as", "steps", "--where", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "a.parquet").exists()
    assert script.main([str(run), "--to", "steps", "--where", str(tmp_path / "out")]) == 0, "ours is replaced"
    (tmp_path / "out" / "a.yaml").write_text("mine: 1\n")
    assert script.main([str(run), "--as", "steps", "--where", str(tmp_path / "out")]) == 2
    (tmp_path / "out" / "a.yaml").unlink()
    assert script.main([str(run), "--as", "steps", "--where", str(tmp_path / "out")]) == 2
    assert "exists and is not ours" in capsys.readouterr().err


def test_logs_that_were_cut_off_copied_or_have_no_groups_are_read(tmp_path: Path, clock: Clock) -> None:
    """A rank that was killed within a step misses it; an editor's copy is no table; a machine may have no name."""
    folder = job(tmp_path / "steps", clock)
    path = folder / "steps.rank0.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-3]))
    (folder / "steps.rank0.csv.bak").write_text("anything")
    log = read_log(folder)
    assert log.num_ranks == 3
    assert np.isnan(log.own_s[-1, 0])
    assert log.own_s[-1, 1:].tolist() == pytest.approx([0.7, 0.5])
    for path in folder.glob("*.csv"):
        path.write_text(path.read_text().replace('"host0, rack 1"', "").replace('"host1, rack 1"', ""))
    log = read_log(folder)
    assert (log.hosts, log.num_ranks) == ((), 3)


HEAD = "rank,step,part,begin_s,seconds,group\n"
STEP, ABOUT = "0,0,step,0,1,a\n", "form: steps\nversion: 1\n"
ENDLESS = "a0: &a0 {k: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{f'*a{n - 1}, ' * 9}]}}\n" for n in range(1, 12))


@pytest.mark.parametrize(
    ("table", "about", "says"),
    [
        (HEAD + STEP, "form: steps\nversion: 2\n", "version 2: this program reads version 1"),
        (HEAD + STEP, ENDLESS, "is no description of steps"),
        (HEAD + STEP, "a: [", "is no description of steps"),
        (HEAD + "0,0,step,0,-1,a\n", ABOUT, "part step: -1: must be seconds, 0 or more"),
        (HEAD + STEP + "0,0,communication,0,1.5,a\n", ABOUT, "step 0 of rank 0: communication and waiting take as"),
        (HEAD + "0,0,lunch,0,1,a\n", ABOUT, "has neither the part step nor computing"),
        ("a,b\n1,2\n", ABOUT, "has no columns rank, step, part, seconds"),
    ],
    ids=["version", "endless YAML", "no YAML", "negative", "longer parts than the step", "other parts", "no columns"],
)
def test_bad_tables_are_one_clear_line(table: str, about: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "steps.rank0.csv").write_text(table)
    (tmp_path / "steps.yaml").write_text(about)
    with pytest.raises(LogError, match=says):
        read_log(tmp_path)
