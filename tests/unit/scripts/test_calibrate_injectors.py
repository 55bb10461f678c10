"""The script that measures injectors: which runs it makes, resumes, reports and refuses. Nothing is run here."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from injectors.patterns import Trace
from injectors.plan import ClusterShape
from runtime.live.machines.mechanisms import Missing
from runtime.live.runtime import LiveRuntime
from runtime.run.preflight import preflight
from stragglab.commands import injectors as script
from stragglab.grids import injector_runs
from stragglab.grids.injector_runs import START_S
from stragglab.grids.injectors import (
    ACTUATORS,
    GAP_S,
    HOSTS,
    LEVELS,
    LINK_LEVELS,
    LINKS_MBPS,
    MAX_BATCH,
    RUN_S,
    TRANSFER_S,
    grid,
    plan_text,
    probe,
)
from tests.support.fake_runners import FakeRunner, Result, ScriptBench, uncomposed
from tests.support.long_tests import long_after
from tests.support.records import disturbance
from tests.unit.analysis.test_injections import Telling

SAMPLE_S = 2e-4
"""On the machine of these tests, so 55 ms are 275 samples."""


class ExactRunner(FakeRunner):
    """Of runs whose injectors are exact, but for ``duty``, off by a factor ``duty_off``."""

    def __init__(self, duty_off: float = 1.0) -> None:
        super().__init__()
        self.duty_off = duty_off

    def leave(self, said: dict[str, str], new: Path) -> None:
        rows = read_plan(Path(said["straggler.path"].strip("'"))) if "straggler.path" in said else []
        received = self._tell(said, rows)
        received.story.meta["started_at"] = self.started_at()
        received.write(new)

    def _tell(self, said: dict[str, str], rows: list[dict[str, str]]) -> Telling:
        by, batch = said.get("runtime.cpu_by"), int(said["workload.global_batch_samples"])
        end_s, plan = float(said["max_time_s"]), []
        for row in rows:
            begin_s, lasts_s, magnitude = (float(row[name]) for name in ("time", "duration", "magnitude"))
            plan.append(disturbance(begin_s, begin_s + lasts_s, row["target"], magnitude, row["kind"]))
        received = Telling(*plan, global_batch_samples=batch)
        linked = "cluster.hosts.cpu_cores" in said
        for one in plan:
            self._work(received, one["start_s"], batch, linked)
            stretch = self.duty_off if by == "duty" else 1.0
            self._work(received.rest(one["start_s"]), one["end_s"], batch, linked, one, stretch)
            received.rest(one["end_s"])
            if one["kind"] != "delay":
                received.noted(one["start_s"], one["target"], one["kind"], one["magnitude"], by="tc" if linked else by)
        self._work(received, end_s, batch, linked)
        return received

    def _work(
        self,
        received: Telling,
        until_s: float,
        batch: int,
        linked: bool,
        one: dict[str, float] | None = None,
        off: float = 1.0,
    ) -> None:
        level = 1.0 if one is None or one["kind"] == "delay" else one["magnitude"] / off
        added_s = one["magnitude"] if one is not None and one["kind"] == "delay" else 0.0
        if linked:
            received.work(until_s, 1e-3, samples=batch, pull_s=TRANSFER_S / level, send_s=TRANSFER_S / level)
        else:
            received.work(until_s, batch * SAMPLE_S / level + added_s, samples=batch, injected_s=added_s)


def read_plan(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


class Bench(ScriptBench):
    """An output directory, and the script with a runner that is none, on a machine that lacks ``lacking``."""

    name = "injectors"

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(folder, capsys)
        self.lacking: set[str] = set()

    def look(self, name: str) -> Missing | None:
        return Missing(reason=f"no {name}", cure="get it") if name in self.lacking else None

    def run(self, *words: str, runner: FakeRunner | None = None) -> Result:
        return self.said(script.main(words, runner or ExactRunner(), self.look))

    def quick(self, *words: str, runner: FakeRunner | None = None) -> Result:
        return self.run("-o", str(self.out), "--quick", *words, runner=runner)

    def refused(self, *words: str) -> str:
        runner = ExactRunner()
        result = self.run(*words, runner=runner)
        assert runner.ran == []
        return self.one_line(result)


@pytest.fixture
def whole(idle: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    uncomposed(monkeypatch)
    return Bench(tmp_path, capsys)


@pytest.fixture
def bench(whole: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Without the figure, which takes long."""
    monkeypatch.setattr(injector_runs, "draw_injectors", lambda path, *_: path)
    return whole


@pytest.mark.long(like="test_a_page_keeps_what_people_wrote")
@pytest.mark.parametrize("hosts", long_after([True, False], always=1))
def test_run_py_takes_the_settings(hosts: bool, bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(LiveRuntime, "look", staticmethod(lambda name: None))
    asked = script.parse(["-o", str(tmp_path)])
    cells = [probe(hosts), *grid(SAMPLE_S, hosts, quick=True)]
    for cell in cells if hosts else cells[:-1]:
        preflight([*injector_runs.settings(cell, asked), f"hydra.run.dir={tmp_path / cell.name}"])


def test_records_of_other_settings_or_plans_are_made_again(bench: Bench) -> None:
    bench.quick()
    path = bench.out / "records" / "cgroup_50ms_1" / ".hydra" / "config.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "runtime.lease_s": 9}))
    again = ExactRunner()
    assert bench.quick(runner=again).code == 0
    assert again.ran == ["cgroup_50ms_1"]
    cells = grid(SAMPLE_S, hosts=True, quick=True)
    asked = script.parse(["-o", str(bench.out)])
    other = cells[0]._replace(windows=cells[1].windows)
    assert injector_runs.settings(cells[0], asked) != injector_runs.settings(other, asked)


def test_without_hosts_tasks_have_the_machine_to_themselves(bench: Bench) -> None:
    """What the machine lacks is left out and said; the first run tells how large a batch must be."""
    bench.lacking = {HOSTS[1], "cgroup_cpu"}
    runner = ExactRunner()
    result = bench.quick(runner=runner)
    assert runner.ran == ["probe", "sleep_50ms_1", "duty_50ms_1", "cpulimit_200ms_1"]
    assert "(cluster=local)" in result.out
    assert "left out: link: no links; get it" in result.out
    said = yaml.safe_load((bench.out / "records" / "duty_50ms_1" / ".hydra" / "overrides.yaml").read_text())
    wanted = {"cluster=local", "runtime.cpu_by=duty", "cluster.device=null", "workload.global_batch_samples=275"}
    assert wanted <= {*said}
    assert not any("cluster.hosts" in word for word in said)


def test_misses_are_part_of_it(bench: Bench, tmp_path: Path) -> None:
    """Duty cycles let workers have 20 % too little."""
    page = tmp_path / "page.md"
    result = bench.quick("--report", str(page), runner=ExactRunner(duty_off=1.2))
    assert result.code == 0
    for text in (result.out, page.read_text()):
        assert (
            "duty: slow-down of iterations of 50 ms and more within 10 %: 0 of 5 levels; not 0.75 left at 55 ms" in text
        )
        assert "cgroup: slow-down of iterations of 50 ms and more within 10 %: 5 of 5 levels" in text
        assert "cgroup: read back at most 1.5 ms after the planned moment" in text
    levels = (page.parent / "images" / "page_slow-down_of_iterations.csv").read_text()
    assert "\nduty,55.0,0.5,2.00,2.40,2.40 to 2.40,+20.0 %,NO," in levels


def test_a_page_keeps_what_people_wrote(bench: Bench, tmp_path: Path) -> None:
    """One without marks is left alone."""
    page = tmp_path / "docs" / "injectors.md"
    page.parent.mkdir()
    page.write_text(f"# Mine\n\nBefore.\n\n{injector_runs.START}\nold\n{injector_runs.END}\n\nAfter.\n")
    bench.quick("--report", str(page))
    first = page.read_text()
    assert first.startswith(f"# Mine\n\nBefore.\n\n{injector_runs.START}\n\nMade by\n")
    assert first.endswith(f"{injector_runs.END}\n\nAfter.\n")
    assert "old" not in first
    assert f"--report {page}" in first
    assert "![injectors, requested against achieved](images/injectors.png)" in first
    bench.quick("--report", str(page))
    assert page.read_text() == first
    (table,) = [block.splitlines() for block in first.split("\n\n") if block.startswith("| ")]
    assert len(table) - 2 == 2
    assert len({line.count("|") for line in table}) == 1
    name = "images/injectors_slow-down_of_iterations.csv"
    assert f"({name})" in first
    assert len(pd.read_csv(page.parent / name)) == 19
    page.write_text("# Mine\n")
    assert "lacks the lines" in bench.refused("--from", str(bench.out), "--report", str(page))
    assert page.read_text() == "# Mine\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "{here}/nowhere"], "nowhere: no run here"),
        (["--from", "{here}"], "no run here"),
        (["--from", "{here}", "--quick"], "--quick and --device: not together with --from"),
        (["--report", "{here}"], "is a directory; name a file"),
        (["--levels", "0.5"], "--levels"),
        (["seed=1"], "seed=1"),
    ],
)
def test_bad_input_is_refused_in_one_line(words: list[str], said: str, bench: Bench, tmp_path: Path) -> None:
    assert said in bench.refused(*(word.format(here=tmp_path) for word in words))


def test_records_without_disturbances_are_refused(bench: Bench, tmp_path: Path) -> None:
    Telling().write(tmp_path / "runs" / "a")
    assert "no disturbance was carried out" in bench.refused("--from", str(tmp_path / "runs"))


def test_a_probe_without_iterations_is_refused(bench: Bench) -> None:
    bench.quick()
    path = bench.out / "records" / "probe"
    hydra = (path / ".hydra" / "config.yaml").read_text()
    shutil.rmtree(path)
    Telling().write(path)
    (path / ".hydra").mkdir()
    (path / ".hydra" / "config.yaml").write_text(hydra)
    assert "no iteration after 2 s; remove it" in bench.refused("-o", str(bench.out), "--quick")


HALF_MS = 5e-4


def test_every_actuator_goes_through_all_levels_at_both_lengths() -> None:
    found: dict[tuple[str, ...], list[float]] = {}
    for cell in grid(HALF_MS, hosts=True, quick=False):
        by, length, _ = cell.name.split("_")
        found.setdefault((by, length), []).extend(row.magnitude for row in cell.windows)
    assert found["cpulimit", "200ms"] == found["cpulimit", "400ms"] == list(LEVELS[:-1])
    for by in set(ACTUATORS) - {"sleep", "cpulimit"}:
        assert found[by, "50ms"] == found[by, "200ms"] == list(LEVELS)
    assert found["sleep", "50ms"] == pytest.approx([0.055 * (1 / level - 1) for level in LEVELS], abs=1e-6)
    for mbps in LINKS_MBPS:
        assert found["link", f"{mbps}mbps"] == list(LINK_LEVELS)
    assert len(found) == 2 * len(ACTUATORS) + len(LINKS_MBPS)


def test_the_whole_grid_takes_well_below_a_quarter_of_an_hour() -> None:
    cells = grid(HALF_MS, hosts=True, quick=False)
    assert sum(cell.lasts_s + START_S for cell in cells) < 11.5 * 60
    assert all(cell.lasts_s <= RUN_S for cell in cells if len(cell.windows) > 1)
    assert len({cell.name for cell in cells}) == len(cells)


def test_windows_are_apart_and_hold_iterations() -> None:
    """No batch is larger than the data."""
    batches = {word for cell in grid(1e-6, hosts=True, quick=False) for word in cell.settings if "global_batch" in word}
    assert batches == {f"workload.global_batch_samples={count}" for count in (MAX_BATCH, 8)}
    for cell in grid(HALF_MS, hosts=True, quick=False):
        end_s = 0.0
        for row in cell.windows:
            assert row.time >= end_s + GAP_S - 1e-6
            end_s = row.time + row.duration
            if "_200ms_" in cell.name and row.kind == "cpu":
                assert row.duration >= 5 * 0.22 / row.magnitude - 1e-3
        assert cell.lasts_s >= end_s + GAP_S - 2e-3


def test_hogs_go_through_all_levels_on_a_device() -> None:
    cells = grid(HALF_MS, hosts=False, quick=False, device="fake")
    for length in ("50ms", "200ms"):
        rows = [row for cell in cells if f"_{length}_" in cell.name for row in cell.windows]
        assert [row.magnitude for row in rows] == list(LEVELS)
        assert {(row.target, row.kind) for row in rows} == {("device:0", "gpu")}
    assert all("backend.device=fake" in cell.settings for cell in (*cells, probe(hosts=False, device="fake")))
    quick = grid(HALF_MS, hosts=False, quick=True, device="cuda")
    assert [cell.name for cell in quick] == ["hog_50ms_1", "hog_50ms_2"]
    assert sum(cell.lasts_s + START_S for cell in quick) < 60


def test_plan_files_say_what_the_plan_should_be(tmp_path: Path) -> None:
    for cell in grid(HALF_MS, hosts=True, quick=False):
        path = tmp_path / "plan.csv"
        path.write_text(plan_text(cell.windows))
        shape = ClusterShape(num_workers=1, num_servers=1, num_hosts=2)
        plan = Trace(path=str(path)).plan(shape, cell.lasts_s, 0)
        for one, row in zip(plan.disturbances, cell.windows, strict=True):
            found = (one.start_s, round(one.end_s - one.start_s, 6), one.target, one.magnitude)
            assert found == (row.time, row.duration, row.target, row.magnitude)
