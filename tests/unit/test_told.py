"""What every program says of what it cannot use: one line on standard error, and an exit code."""

from __future__ import annotations

import argparse

import pytest

from runtime.errors import FAILED, REFUSED, ConfigError, refuse, told


@pytest.mark.parametrize(
    ("problem", "where", "line"),
    [
        (ConfigError("seed=-1: must be 0 or more"), "", "p.py: seed=-1: must be 0 or more"),
        (ValueError("two\n  lines"), "", "p.py: two lines"),
        (FileNotFoundError(2, "No such file or directory", "a/b"), "out", "p.py: a/b: no such file or directory"),
        (PermissionError(13, "Permission denied"), "out", "p.py: out: permission denied"),
        (OSError("the disc is gone"), "out", "p.py: the disc is gone"),
    ],
)
def test_it_is_one_line_that_names_the_file(
    problem: Exception, where: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told("p.py", problem, where=where) == REFUSED == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"{line}\n")


def test_a_program_may_say_that_it_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert told("p.py", "the job died", FAILED) == 1
    assert capsys.readouterr().err == "p.py: the job died\n"


def test_a_parser_refuses_without_its_usage() -> None:
    parser = argparse.ArgumentParser()
    parser.error = refuse  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="unrecognized arguments: --what"):
        parser.parse_args(["--what"])
