"""Words that no command or script accepts: one line that begins with the program, exit code 2, nothing begun."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.records.load import RecordError
from runtime.errors import ConfigError
from scripts.fitting import fit_kappa, fit_progress, profile_noise, train_modes, train_predictor
from scripts.gpu import gpu_session
from stragglab.commands import compare, figures, story, verify
from stragglab.grids.answering import answer
from stragglab.grids.grid import JobFailed
from tests.support.records import bsp_story


def never(*_: Any) -> int:
    raise AssertionError("a run was started")


PROGRAMS: dict[str, Callable[[list[str]], int]] = {
    "compare": compare.main,
    "figures": figures.main,
    "fit_kappa.py": lambda words: fit_kappa.main(words, never),
    "fit_progress.py": fit_progress.main,
    "gpu_session.py": lambda words: gpu_session.main(words, never),
    "profile_noise.py": profile_noise.main,
    "story": story.main,
    "train_modes.py": train_modes.main,
    "train_predictor.py": train_predictor.main,
    "verify": verify.main,
}
PHI = "must be a number of samples between 0 and 1e+12"
REFUSED: dict[str, list[tuple[str, str]]] = {
    "compare": [
        ("nowhere", "nowhere: no such directory"),
        ("empty", "holds no run"),
        ("runs --baseline asp", "baseline 'asp' is not among the strategies: bsp"),
        ("runs --name bsp", "argument --name: bsp: must be ID=NAME"),
        ("runs --columns time,jct", "--columns: jct: must be some of seeds, time"),
    ],
    "figures": [(f"runs --paper {width}", "must be column, text, or inches") for width in ("wide", "0.5", "nan")],
    "fit_kappa.py": [
        ("nothing_known", "--WORKLOAD nothing_known: unknown"),
        ("digits --lr fast", "--lr fast: must be a number above 0"),
        ("digits --x 2,5", "at most the number of workers (4)"),
        ("digits --limit-s 0", "--limit-s 0: must be more than 0"),
    ],
    "fit_progress.py": [
        ("empty", "no run here"),
        ("empty --phi -1", f"--phi=-1: {PHI}"),
        ("empty --target nan", "--target=nan: must be a finite number"),
        ("empty -o model.txt", "must end in .yaml"),
    ],
    "gpu_session.py": [(words, "") for words in ("--minutes 0", "--minutes nan", "--device tpu", "--steps 3")],
    "profile_noise.py": [
        ("--every 0", "--every=0: must be 1 or more"),
        ("--gradients 1", "--gradients=1: must be 2 or more"),
        ("--batches 5000", "--batches: 5000 samples, more than the 1438 that there are"),
        ("runtime=virtual backend=none workload.target=null", "backend=none: computes no gradients"),
        ("workload=lda", "backend=torch: cannot train workload=lda; choose backend=numpy"),
        ("workload=resnet20_cifar10_laptop", "/data/raw/cifar10: does not exist; prepare the data with: "),
    ],
    "story": [
        ("runs/0 worker:77", "never names it"),
        ("runs/0 foo", "must be one of worker:N"),
        ("runs/0 worker:" + "9" * 400, "must be one of worker:N"),
    ],
    "train_modes.py": [
        ("--draw 0", "--draw=0: leaves nothing to learn"),
        ("--epochs 0", "--epochs=0: must be 1 or more"),
        ("--kappa nan", "--kappa=nan: must be a number"),
        ("--out x.txt", "--out=x.txt: must end in .npz"),
    ],
    "train_predictor.py": [
        ("runs --series resources", "does not say how much processor time an iteration took"),
        ("runs --series deviation --history 500", "--history=500: needs 5 workers or more with longer series"),
        ("runs --series deviation --history 3", "--history=3: must be 11 or more"),
        ("runs --series deviation --epochs 0", "--epochs=0: must be 1 or more"),
        ("runs --series deviation --out x.txt", "--out=x.txt: must end in .npz"),
    ],
    "verify": [("nowhere", "no such directory"), ("file", "is a file, not a directory"), ("empty", "holds no run")],
}
DEFAULTS = {
    "train_modes.py": ["--out", "x.npz"],
    "train_predictor.py": ["--out", "x.npz"],
    "profile_noise.py": ["--out", "x.csv"],
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    for seed in range(2):
        bsp_story(seed=seed, epochs=6).write(folder / "runs" / str(seed))
    (folder / "empty").mkdir()
    (folder / "file").touch()
    return folder


@pytest.mark.parametrize(
    ("program", "words", "said"),
    [(program, *row) for program, rows in REFUSED.items() for row in rows],
    ids=[f"{program} {words}"[:60] for program, rows in REFUSED.items() for words, _ in rows],
)
def test_bad_words_are_one_line(
    program: str, words: str, said: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    assert PROGRAMS[program]([*DEFAULTS.get(program, []), *words.split()]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert (out, err.count("\n"), err.startswith(f"{program}: ")) == ("", 1, True), err


class OwnError(Exception):
    """An error that one script alone knows."""


def ended(work: object, *, parse_error: Exception | None = None) -> int:
    def parse() -> argparse.Namespace:
        if parse_error is not None:
            raise parse_error
        return argparse.Namespace(out=Path("out/folder"))

    def act(asked: argparse.Namespace) -> int | None:
        if isinstance(work, BaseException):
            raise work
        return work  # type: ignore[return-value]

    return answer("some.py", parse, act, OwnError)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("seeds=x: must be numbers"), 2, "some.py: seeds=x: must be numbers"),
        (RecordError("out/a: no run here"), 2, "some.py: out/a: no run here"),
        (OwnError("entry 3: no value"), 2, "some.py: entry 3: no value"),
        (JobFailed("1 of 2 runs failed"), 1, "some.py: 1 of 2 runs failed"),
        (OSError(28, "No space left"), 74, "some.py: out/folder: no space left; make room and start again"),
        (PermissionError(13, "Permission denied"), 2, "some.py: out/folder: permission denied"),
        (KeyboardInterrupt(), 130, "some.py: interrupted; run the same command again to continue"),
    ],
)
def test_an_error_is_one_line(error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(error) == code
    assert capsys.readouterr().err == f"{line}\n"


def test_other_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """Work says its exit code; an error that nobody expects is not hidden, and an early one names no folder."""
    assert [ended(work) for work in (None, 0, 3)] == [0, 0, 3]
    assert capsys.readouterr().err == ""
    with pytest.raises(ZeroDivisionError):
        ended(ZeroDivisionError())
    assert ended(None, parse_error=PermissionError(13, "Permission denied")) == 2
    assert "folder" not in capsys.readouterr().err
