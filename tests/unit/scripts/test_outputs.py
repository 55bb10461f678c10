"""Where results are to go is tried before the work that makes them, which may take half an hour."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import ConfigError
from runtime.live.machines import doctor
from runtime.run.probing import refuse_unwritable_file, refuse_unwritable_folder
from scripts.fitting import fit_kappa, fit_progress, job_history
from scripts.gpu import gpu_session, measure_gpu
from scripts.measure import fidelity_jobs, validate_advice
from stragglab.commands import advise, calibrate, compare, experiment, export, fidelity, figures
from stragglab.commands import data as prepare_data
from stragglab.commands import harm as harm_and_gain
from stragglab.commands import injectors as calibrate_injectors
from stragglab.commands import predictors as scores
from tests.support.records import bsp_story

NOWHERE = "/dev/null/x"


def never(*_: Any) -> int:
    raise AssertionError("a run was started")


@pytest.fixture
def record(tmp_path: Path) -> str:
    return str(bsp_story().write(tmp_path / "record"))


CASES: dict[str, tuple[Callable[[str], int], str]] = {
    "fidelity": (lambda _: fidelity.main(["--report", NOWHERE], never), "fidelity: --report"),
    "injectors": (lambda _: calibrate_injectors.main(["--report", NOWHERE], never), "injectors: --report"),
    "experiment": (lambda _: experiment.main(["antdt_fig1", "-o", NOWHERE], never), "experiment: -o"),
    "experiment-pages": (lambda _: experiment.main(["gc_tables", "--pages", NOWHERE]), "experiment: --pages"),
    "harm": (lambda _: harm_and_gain.main(["--report", f"{NOWHERE}.md"]), "harm: --report"),
    "calibrate": (lambda run: calibrate.main([run, "-o", f"{NOWHERE}.yaml"]), "calibrate: -o"),
    "progress": (lambda run: fit_progress.main([run, "-o", f"{NOWHERE}.yaml"]), "fit_progress.py: --output"),
    "data": (lambda _: prepare_data.main(["planted", "--data-dir", NOWHERE]), "data: --data-dir"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_place_that_cannot_be_written(case: str, record: str, capsys: pytest.CaptureFixture[str]) -> None:
    call, begins = CASES[case]
    assert call(record) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"{begins} {NOWHERE}")
    assert "cannot be written (not a directory)" in said.err
    assert said.err.count("\n") == 1


FOREIGN: dict[str, Callable[[str, str], int]] = {
    "advise": lambda run, out: advise.main([run, "-o", out]),
    "calibrate_injectors": lambda _, out: calibrate_injectors.main(["-o", out], never),
    "compare": lambda run, out: compare.main([run, "-o", out]),
    "fidelity": lambda _, out: fidelity.main(["-o", out], never),
    "fidelity_jobs": lambda _, out: fidelity_jobs.main(["-o", out], never),
    "figures": lambda run, out: figures.main([run, "--out", out]),
    "fit_kappa": lambda _, out: fit_kappa.main(["cnn_fashion_mnist", "-o", out], never),
    "gpu_session": lambda _, out: gpu_session.main(["-o", out], never),
    "harm_and_gain": lambda _, out: harm_and_gain.main(["-o", out]),
    "job_history": lambda run, out: job_history.main([run, "-o", out]),
    "measure_gpu": lambda _, out: measure_gpu.main(["-o", out], never),
    "predictors": lambda run, out: scores.main([run, "--out", out]),
    "tensorboard": lambda run, out: export.main([run, "--to", "tensorboard", "--where", str(Path(out).parent)]),
    "validate_advice": lambda _, out: validate_advice.main(["-o", out]),
}


@pytest.mark.parametrize("program", FOREIGN)
def test_a_folder_with_files_of_others_is_refused(
    program: str, record: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where an earlier output of the program is next to them."""
    out = tmp_path / "out" / "record"
    for name in ("records", "comparison.csv", "costs.yaml", "predictors_all.csv", "strategy", "thesis.tex"):
        (out / name).mkdir(parents=True)
    assert FOREIGN[program](record, str(out)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search(r"is not empty \(.*\), and not of this command; choose a new or an empty directory\n$", said.err)
    assert said.err.count("\n") == 1
    assert "thesis.tex" in {path.name for path in out.iterdir()}


def test_an_earlier_output_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    ours, marks = ("a.csv", "page.*"), ("a.csv",)
    refuse_unwritable_folder("-o", tmp_path, ours, marks)
    (tmp_path / ".hidden").touch()
    (tmp_path / "page.html").touch()
    refuse_unwritable_folder("-o", tmp_path, ours)
    with pytest.raises(ConfigError, match=r"\(page.html\)"):
        refuse_unwritable_folder("-o", tmp_path, ours, marks)
    (tmp_path / "a.csv").touch()
    refuse_unwritable_folder("-o", tmp_path, ours, marks)
    (tmp_path / "mine").touch()
    refuse_unwritable_folder("-o", tmp_path)
    for one in (marks, ()):
        with pytest.raises(ConfigError, match=r"is not empty \(mine\), and not of this command"):
            refuse_unwritable_folder("-o", tmp_path, ours, one)


def test_places_of_all_kinds(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for file in (None, tmp_path / "file", tmp_path / "new" / "deep" / "file"):
        refuse_unwritable_file("-o", file)
    for folder in (None, tmp_path / "new" / "deep"):
        refuse_unwritable_folder("-o", folder)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]
    for refuse, path, why in (
        (refuse_unwritable_file, tmp_path / "folder", "is a directory; name a file"),
        (refuse_unwritable_file, tmp_path / ("x" * 300), "file name too long"),
        (refuse_unwritable_folder, tmp_path / "file", "not a directory"),
        (refuse_unwritable_folder, Path("/proc/nope"), "cannot be written"),
    ):
        with pytest.raises(ConfigError, match=f"^-o {path}: .*{why}"):
            refuse("-o", path)


def test_a_probe_that_takes_too_long_is_a_lack_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(words: list[str], timeout: float, **_: Any) -> None:
        raise subprocess.TimeoutExpired(words, timeout)

    monkeypatch.setattr(doctor.subprocess, "run", hang)
    report = doctor._network_report.__wrapped__()
    assert set(report) == {"links", "peers", "netem"}
    assert report["links"] is not None
    assert "took more than 20 s" in report["links"][0]
