"""``scripts/measure/fidelity_jobs.py``: the same set live and on the virtual clock, with records that nobody ran."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

import scripts.measure.fidelity_jobs as script
from analysis.measures.cluster.fidelity import core_seconds
from tests.support.cluster_records import ClusterStory
from tests.support.fake_runners import FakeRunner, Result, ScriptBench

ENDS_S = {"a": 40.0, "b": 60.0, "c": 80.0, "d": 30.0}


class JobsRunner(FakeRunner):
    """Live, each job waits 2 s for its framework; virtual it takes ``factors`` times as long, and less processor."""

    def __init__(self, **factors: float) -> None:
        super().__init__()
        self.factors = factors
        self.said: dict[str, dict[str, str]] = {}

    def leave(self, said: dict[str, str], new: Path) -> None:
        self.said[new.name] = said
        virtual, tale = said["runtime"] == "virtual", ClusterStory()
        for host, (job, end_s) in enumerate(ENDS_S.items()):
            tale.submit(0.0, job, gpus=1)
            tale.start(0.0, job, [host % 2], zero_s=0.0 if virtual else 2.0)
            tale.iterate(job, 0, [{}])
            tale.end(end_s * self.factors.get(job, 1.0) if virtual else end_s, job)
        tale.samples += [(t, host, 1, 0.2 if virtual else 0.25, 0.0, 0.0) for t in (1.0, 2.0) for host in (0, 1)]
        tale.write(new, events=True)
        for job in ENDS_S:
            with (new / "jobs" / job / "events.jsonl").open("a") as file:
                file.write(json.dumps({"note": {"type": "Finished", "num_parameters": 4321}}) + "\n")


class Bench(ScriptBench):
    name = "fidelity_jobs.py"

    def run(self, *words: str, runner: FakeRunner | None = None) -> Result:
        return self.said(script.main(["-o", str(self.out), *words], runner or JobsRunner()))


@pytest.fixture
def bench(idle: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(tmp_path, capsys)


def test_live_runs_come_first_and_virtual_ones_do_what_they_did(bench: Bench) -> None:
    runner = JobsRunner()
    result = bench.run(runner=runner)
    assert (result.code, result.err) == (0, "")
    assert runner.ran == [
        f"{placement}_{side}" for side in ("live", "virtual", "paced") for placement in ("pack", "spread")
    ]
    assert "iterations: 1500" in runner.said["pack_live"]["jobs.entries"]
    assert re.findall(r"iterations: (\d+)", runner.said["pack_virtual"]["jobs.entries"]) == ["1"] * 4
    assert runner.said["pack_virtual"]["backend.num_parameters"] == "4321"
    cores = [runner.said[f"pack_{side}"]["cluster.hosts.real_cores_per_core"] for side in ("live", "virtual", "paced")]
    assert cores == ["0.0625", "0.0625", "0.05"]
    other = JobsRunner()
    bench.run("-o", str(bench.folder / "other"), "--placements", "pack", f"{script.REAL_CORES}=0.05", runner=other)
    cores = [other.said[f"pack_{side}"]["cluster.hosts.real_cores_per_core"] for side in ("live", "virtual", "paced")]
    assert cores == ["0.05", "0.05", "0.04"]
    again = JobsRunner()
    assert bench.run(runner=again).code == 0
    assert again.ran == []


def test_the_page_has_every_job_and_says_what_is_missed(bench: Bench) -> None:
    """The virtual d is 40 % slower, and later than a."""
    page = bench.folder / "page.md"
    out = bench.run("--placements", "pack", "--report", str(page), runner=JobsRunner(a=1.05, d=1.5)).out
    text = page.read_text()
    assert text in out
    assert "- JCT (job completion time) within 10%: 3 of 4 jobs\n" in text
    assert (
        "- at live's processor speed (pack 0.80 of the fit's): 3 of 4 jobs\n- order of the jobs by JCT kept: pack NO\n"
        in text
    )
    assert "| pack | a | 1 | 40.0 | 42.0 | 1.050 | 38.0 | 42.0 | 1.105 | 42.0 | 1.050 |" in text
    assert "| pack | d | 1 | 30.0 | 45.0 | 1.500 |" in text
    assert "abc1234" in text


def test_what_cannot_be_is_refused_in_one_line(bench: Bench) -> None:
    assert "--placements packed: unknown" in bench.one_line(bench.run("--placements", "packed"))
    assert "cluster.costs=none: cannot be read" in bench.one_line(bench.run("--costs", "none"))
    bench.run()
    assert "of other settings (seed=3)" in bench.one_line(bench.run("seed=3"))


def test_the_processor_time_of_a_set_is_that_of_all_samples() -> None:
    """A sample is of the time since the one before: 0.5 cores for 2 s, 0.25 for 1 s, and 1 core for 3 s."""
    rows = pd.DataFrame([(3.0, 0, 0.25), (3.0, 1, 1.0), (2.0, 0, 0.5)], columns=["t_s", "host", "cpu_cores"])
    assert core_seconds(rows) == 4.25
