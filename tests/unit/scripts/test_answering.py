"""Every way in which a script that makes records ends: its exit code and its line."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from analysis.records.load import RecordError
from runtime.errors import ConfigError
from stragglab.grids.answering import answer
from stragglab.grids.grid import JobFailed


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
