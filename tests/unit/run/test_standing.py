"""A record's directory that goes while a run writes there: one line, and nothing that comes after it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.run.ending import JobFailed
from runtime.run.standing import standing
from tests.support.cli import run_cli

ENDLESS = ("workload=ledger", "backend=numpy", "runtime=virtual", "workload.epochs=null", "straggler=none", "view=none")


def replace(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.mkdir()


@pytest.mark.parametrize("go", [shutil.rmtree, replace])
def test_a_look_notices_that_it_is_gone(go: Callable[[Path], None], tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()

    def run() -> None:
        with standing(place) as watching:
            tick = watching(seen.append)
            tick(1.0)
            go(place)
            tick(2.0)

    seen: list[float] = []
    with pytest.raises(JobFailed, match=f"{place}: was removed or renamed"):
        run()
    assert seen == [1.0]


def test_whatever_fails_for_want_of_it_is_the_same_line_and_other_errors_are_themselves(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    with pytest.raises(ZeroDivisionError), standing(tmp_path):
        raise ZeroDivisionError

    def run() -> None:
        with standing(place):
            place.rmdir()
            (place / "a").write_text("")

    with pytest.raises(JobFailed, match="was removed or renamed"):
        run()


def test_a_run_on_the_clock_ends_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "run"
    monkeypatch.setattr("runtime.run.job.make_view", lambda *_: Taking(place))
    done = run_cli(*ENDLESS, "max_time_s=600000", "eval_every_s=null", f"hydra.run.dir={place}")
    assert (done.exit_code, done.err.count("\n")) == (1, 1), done.err
    assert f"{place}: was removed or renamed" in done.err
    assert list(tmp_path.iterdir()) == []


class Taking:
    """A view that takes the record away at its first tick."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def tick(self, t: float) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def close(self, t: float) -> None: ...


@pytest.mark.parametrize("lacks", ["memory", "permission"])
def test_a_report_that_cannot_be_made_is_one_line_and_the_record_is_whole(
    lacks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As below ``ulimit -v``, where Matplotlib cannot be loaded."""

    def finish(run_dir: Path, *, explain: bool) -> None:
        raise MemoryError if lacks == "memory" else PermissionError(13, "Permission denied", str(run_dir / "a"))

    monkeypatch.setattr("analysis.reports.finish.finish", finish)
    place = tmp_path / "run"
    done = run_cli(*ENDLESS, "max_time_s=1", "eval_every_s=null", f"hydra.run.dir={place}")
    assert (done.exit_code, done.err.count("\n")) == (1, 1), done.err
    assert done.err.startswith("run.py: not enough memory" if lacks == "memory" else f"run.py: {place}/a: permission")
    assert (place / "SHA256SUMS").exists()
