"""Rows of an experiment that stay: when they are made, when they count, and what is read off them."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Sequence
from math import isnan, nan
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from analysis.experiments.results import measure_runs
from analysis.experiments.rows import is_busy, read_rows, row_of
from analysis.experiments.spec import Spec, SpecError, cells, load_spec, narrow
from analysis.records.load import load_run
from stragglab.commands import experiment
from stragglab.grids import experiment_pages, rows
from stragglab.grids.code import START, files_of, sha256_of_run
from stragglab.grids.grid import record_of
from stragglab.grids.idleness import Spent, others_frac
from stragglab.grids.rows import Kept, counts, make_rows, results_that_count
from tests.support.cli import run_cli
from tests.unit.analysis.test_fidelity import story, with_copies

pytestmark = pytest.mark.usefixtures("same_code")
OWN: dict[str, Any] = {
    "title": "two systems",
    "where": "a toy",
    "keep_rows": True,
    "settings": [
        *("runtime=virtual", "backend=none", "backend.progress=digits_mlp", "workload.epochs=1"),
        *("straggler=persistent", "eval_every_s=0.2"),
    ],
    "axes": {
        "system": {"bsp": ["strategy=bsp"], "asp": ["strategy=asp"]},
        "workers": {"4": [], "2": ["cluster.num_workers=2"]},
    },
    "seeds": [0, 1],
    "target": {"system": "asp"},
    "measures": ["jct_s", "restarts"],
    "figure": {"kind": "groups", "along": "workers"},
}


def spec_of(folder: Path, **changes: Any) -> Spec:
    path = folder / "toy_rows.yaml"
    path.write_text(yaml.safe_dump({**OWN, **changes}, sort_keys=False))
    return load_spec(path)


def asked(folder: Path, **changes: Any) -> argparse.Namespace:
    places = {"out": folder / "out", "pages": folder / "paper"}
    return argparse.Namespace(**{"again": False, "fresh": False, "jobs": 2, "minutes": None, **places, **changes})


@pytest.fixture(scope="module")
def eight(same_code: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the records and rows of the whole experiment."""
    folder = tmp_path_factory.mktemp("rows")
    assert len(made(spec_of(folder), asked(folder))) == 8
    return folder


def copied(eight: Path, folder: Path) -> argparse.Namespace:
    """The arguments in a folder with the rows of ``eight``, but no records."""
    how = asked(folder)
    how.pages.mkdir()
    shutil.copytree(asked(eight).pages / rows.ROWS, how.pages / rows.ROWS)
    return how


def made(spec: Spec, how: argparse.Namespace) -> dict[str, Any]:
    assert not make_rows([spec], how, Console(quiet=True), None)
    return {"-".join([row["system"], row["workers"], row["seed"]]): row for row in read_rows(rows.path_of(spec, how))}


def test_rows_say_the_same_as_the_records_that_they_were_made_of(eight: Path) -> None:
    """The time to the metric of another cell needs the curves of both, which rows have."""
    spec, how = spec_of(eight), asked(eight)
    runs = [(cell, load_run(record_of(how.out.absolute() / spec.name, cell.name))) for cell in cells(spec)]
    ours, whole = results_that_count(spec, how)
    assert ours is not None
    assert whole
    expected = measure_runs(spec, runs)
    for name in ("jct_s", "restarts", "tta_s", "seed"):
        assert ours.runs[name].tolist() == pytest.approx(expected[name].tolist(), rel=1e-5), name
    assert "virtual runtime" in ours.source
    assert "seeds 0\N{EN DASH}1" in ours.source
    assert ours.kept.startswith("0 live runs and 8 virtual ones")


def test_a_row_has_the_usual_reading_of_the_memory(tmp_path: Path) -> None:
    """And none where there are no readings."""
    spec = spec_of(tmp_path)
    found = []
    for copies_s in ((1e-4, 4e-4, 2e-4), ()):
        run = load_run(with_copies(story(), *copies_s).write(tmp_path / f"run{len(copies_s)}"))
        found.append(row_of(spec, next(cells(spec)), run, {})["copy_s"])
    assert found == ["0.0002", ""]


def test_a_row_that_counts_is_made_once(eight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other settings make another run of it; other code does not, but it is older and ``--fresh`` repeats it."""
    spec, how = spec_of(tmp_path, seeds=[0]), copied(eight, tmp_path)
    first = made(spec, how)
    assert len(first) == 8
    assert not how.out.exists()
    systems = {"bsp": ["strategy=bsp"], "asp": ["strategy=asp", "workload.epochs=2"]}
    other = spec_of(tmp_path, seeds=[0], axes={**OWN["axes"], "system": systems})
    second = made(other, how)
    assert [second[name] == first[name] for name in ("bsp-4-0", "bsp-2-0")] == [True, True]
    assert second["asp-4-0"]["jct_s"] != first["asp-4-0"]["jct_s"]
    monkeypatch.setattr(rows, "sha256_of_run", lambda *_: "f" * 64)
    results, _ = results_that_count(other, how)
    assert results is not None
    assert "4 runs are of older code" in results.kept
    assert not Kept(other, how).missing(how)
    assert len(Kept(other, how).missing(asked(tmp_path, fresh=True))) == 4


def test_a_live_run_beside_other_programs_does_not_count(eight: Path, tmp_path: Path) -> None:
    """Its row stays until there is a better one, and never replaces one that counts."""
    spec, how = spec_of(tmp_path), copied(eight, tmp_path)
    kept = Kept(spec, how)
    one = kept.wanted[0]._replace(runtime="live")
    row = {**kept.rows[one.cell.name], "runtime": "live", "others_frac": "0.01"}
    busy = {**row, "others_frac": "0.2"}
    assert (is_busy(row), is_busy(busy), counts(one, row), counts(one, busy)) == (False, True, True, False)
    kept.rows.clear()
    for added, there in ((busy, busy), (row, row), (busy, row)):
        kept.add(one, added)
        assert kept.rows[one.cell.name] == there


def test_live_runs_come_first_and_a_seed_is_complete_before_the_next(tmp_path: Path) -> None:
    axes = {**OWN["axes"], "clock": {"virtual": ["runtime=virtual"], "live": ["runtime=live"]}}
    spec = spec_of(tmp_path, settings=["workload.epochs=1"], axes=axes)
    order = [one.cell.name for one in Kept(spec, asked(tmp_path)).wanted]
    assert order[:4] == ["bsp_4_live_seed0", "asp_4_live_seed0", "bsp_2_live_seed0", "asp_2_live_seed0"]
    assert order[4:8] == [name.replace("live", "virtual") for name in order[:4]]
    assert order[8] == "bsp_4_live_seed1"


@pytest.mark.long(like="test_a_row_that_counts_is_made_once")
def test_a_piece_ends_in_time_and_an_interruption_loses_nothing(tmp_path: Path) -> None:
    spec, how = spec_of(tmp_path), asked(tmp_path, jobs=1)
    path = rows.path_of(spec, how)

    def interrupted(words: Sequence[str], log: Path) -> int:
        if "strategy=bsp" in words:
            log.touch()
            return run_cli(*words).exit_code
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_rows([spec], how, Console(quiet=True), interrupted)
    (row,) = read_rows(path)
    assert (row["system"], row["seed"]) == ("bsp", "0")
    kept = Kept(spec, how)
    for one in kept.rows.values():
        one["wall_s"] = "90.0"
    rows.write_rows(path, list(kept.rows.values()))
    start_s = time.monotonic()
    assert not make_rows([spec], asked(tmp_path, minutes=1), Console(quiet=True), None)
    assert time.monotonic() - start_s < 60.0
    assert read_rows(path) == [{**row, "wall_s": "90.0"}]


def test_the_page_is_of_seeds_with_all_their_runs(eight: Path, tmp_path: Path) -> None:
    spec, how = spec_of(tmp_path), copied(eight, tmp_path)
    path = rows.path_of(spec, how)
    rows.write_rows(path, read_rows(path)[:-1])
    results, whole = results_that_count(spec, how)
    assert results is not None
    assert whole
    assert results.runs["seed"].unique().tolist() == [0]
    assert "complete for seed 0 of 0\N{EN DASH}1" in results.kept
    rows.write_rows(path, read_rows(path)[:3])
    results, whole = results_that_count(spec, how)
    assert results is not None
    assert (len(results.runs), whole) == (3, False)
    path.unlink()
    assert results_that_count(spec, how) == (None, False)


def test_what_rows_lack_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for changes, said in (
        ({"figure": {"kind": "gantt"}}, "kind=gantt needs records, and keep_rows has none; there are bars"),
        ({"times_only": True, "measures": ["jct_s"], "target": {}}, "keep_rows: has no effect with times_only"),
        ({"predictors": {"early": {"name": "ema"}}}, "keep_rows: predictors are scored on records"),
    ):
        with pytest.raises(SpecError, match=said):
            spec_of(tmp_path, **changes)
    assert experiment.main(["gc_tables", "--minutes", "5"]) == 2
    assert "gc_tables is none" in capsys.readouterr().err, "minutes are of experiments whose rows stay"


def test_code_is_its_syntax(tmp_path: Path) -> None:
    path = tmp_path / "runtime" / "one.py"
    path.parent.mkdir()
    bsp: dict[str, Any] = {"strategy": {"_target_": "runtime.one.BSP"}}

    def hashed(text: str) -> str:
        path.write_text(text)
        return sha256_of_run(bsp, "live", tmp_path)

    first = hashed('"""Say."""\ndef f():\n    """Say."""\n    return 1\n')
    assert hashed("# a comment\ndef f():\n    '''Other words.'''\n    return (1)\n") == first
    assert hashed("def f():\n    return 2\n") != first != sha256_of_run({}, "live", tmp_path)


@pytest.mark.long(like="test_a_row_that_counts_is_made_once")
def test_a_run_is_of_its_own_code() -> None:
    """Neither the other runtime, nor other strategies, nor the analysis."""
    live = {
        path.as_posix() for path in files_of([START, "runtime.live.LiveRuntime", "strategies.basic.bsp.BSP"], "live")
    }
    assert {"strategies/basic/bsp.py", "runtime/live/tasks/worker.py", "runtime/core/coordinator.py"} <= live
    assert "runtime/live/tasks/cold.py" in live
    assert not any(
        name.startswith(("runtime/virtual/", "analysis/", "strategies/star/", "strategies/basic/asp")) for name in live
    )
    virtual = {path.as_posix() for path in files_of([START, "runtime.virtual.VirtualRuntime"], "virtual")}
    assert "runtime/virtual/tasks/workers.py" in virtual
    assert any(name.endswith(".c") for name in virtual)
    assert not any(name.startswith("runtime/live/") for name in virtual)


def test_what_others_take_is_what_neither_we_nor_our_children_took() -> None:
    begin, end = Spent(10.0, 100.0, 5.0), Spent(20.0, 112.0, 13.0)
    assert others_frac(begin, end, cores=2) == pytest.approx(0.2)
    assert others_frac(begin, Spent(20.0, 104.0, 13.0), cores=2) == 0.0
    unknown = others_frac(begin._replace(all_s=nan), end._replace(all_s=nan), cores=2)
    assert isnan(unknown)
    assert is_busy({"others_frac": str(unknown)}), "an unknown share is no evidence of an idle machine"


@pytest.mark.parametrize("ours", [True, False])
def test_complete_rows_of_no_paper_have_a_lasting_picture(
    ours: bool, eight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Next to those of docs/ if the experiment is one of ours; of a part, or of a user's own, with its other output."""
    spec, how = spec_of(tmp_path), copied(eight, tmp_path)
    how.paper = None
    known = {spec.name: tmp_path / "toy_rows.yaml"}
    monkeypatch.setattr(experiment_pages, "known_specs", lambda: known)
    monkeypatch.setattr(experiment_pages, "find_specs", lambda _: known if ours else {})
    lasting, other = (folder / f"{spec.name}.csv" for folder in (tmp_path / "images", how.out / spec.name))
    part = narrow(spec, [0], {})
    experiment_pages.report_one(part, how, Console(quiet=True), None)
    assert (lasting.exists(), other.absolute().exists()) == (False, True)
    experiment_pages.report_one(spec, how, Console(quiet=True), None)
    assert lasting.exists() is ours
