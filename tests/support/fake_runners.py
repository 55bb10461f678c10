"""Replaces the runs of a script: keeps the command lines, and fabricates records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from stragglab.grids import experiments


class Result(NamedTuple):
    """What a script said."""

    code: int
    out: str
    err: str


def composed_by(words: Sequence[str]) -> dict[str, Any]:
    """A configuration for these settings; to compose the real one takes longer than everything else."""
    said: dict[str, Any] = dict(word.split("=", 1) for word in words)
    return {**said, "cluster": {"costs": said.get("cluster.costs")}}


def uncomposed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Experiments compose no configuration, neither to check them nor to compare them with those of records."""
    monkeypatch.setattr(experiments, "preflight", lambda _: None)
    monkeypatch.setattr(experiments, "composed_words", lambda: nullcontext(composed_by))


class FakeRunner(ABC):
    """Called with the words of a run, as the scripts' own runner is; ``ran`` are the names of all runs, in order.

    ``failing``: names of runs with their exit codes; ``interrupted_at``: the run in which somebody presses Ctrl-C.
    """

    complaint = "run.py: bsp on digits: it broke\nrecord: somewhere\n"

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.failing: dict[str, int] = {}
        self.interrupted_at: str | None = None

    def __call__(self, words: Sequence[str], log: Path) -> int:
        said = dict(word.split("=", 1) for word in words)
        new = Path(said.pop("hydra.run.dir").strip("'"))
        self.ran.append(new.name)
        if new.name == self.interrupted_at:
            raise KeyboardInterrupt
        log.write_text(self.complaint if new.name in self.failing else "")
        self.leave(said, new)
        self.configured(list(words[:-1]), new / ".hydra")
        return self.failing.get(new.name, 0)

    @abstractmethod
    def leave(self, said: dict[str, str], new: Path) -> None:
        """Write the record that the run would have left in ``new``; ``said`` are the settings."""

    def configured(self, words: list[str], hydra: Path) -> None:
        """What Hydra would have stored."""
        hydra.mkdir()
        (hydra / "overrides.yaml").write_text(yaml.safe_dump(words))
        (hydra / "config.yaml").write_text(yaml.safe_dump(composed_by(words)))

    def started_at(self) -> str:
        """Of the newest run: a second after the one before."""
        return f"2024-11-21T08:00:{len(self.ran):02}"


class ScriptBench:
    """A script, and what it says."""

    name: str

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.out = folder / "out dir"

    def said(self, code: int) -> Result:
        """With what was printed since the last time."""
        return Result(code, *self.capsys.readouterr())

    def one_line(self, result: Result) -> str:
        """The line with which it refused."""
        assert result.code == 2
        assert result.err.startswith(f"{self.name}: ")
        assert result.err.count("\n") == 1, result.err
        return result.err.strip()
