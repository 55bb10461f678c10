"""What a command or a target prints first: what it will do, how long that takes, where the result is."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from runtime.house import ROOT
from stragglab.commands import COMMANDS, announcement
from stragglab.grids import forks

LINE = re.compile(r"^(?P<target>[a-z]+):.*## (?P<does>[^|]+) \| (?P<takes>[^|]+) \| (?P<into>[^|]+)$")


def silent(makefile: str) -> list[str]:
    """Targets that lack a part of their line, or do not begin with it."""
    found = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert found
    lines = makefile.splitlines()
    said = {match["target"]: lines[n + 1] for n, line in enumerate(lines) if (match := LINE.match(line))}
    return [name for name in found[1].split() if name != "help" and said.get(name) != "\t$(SAY)"]


def test_every_target_begins_with_its_line() -> None:
    assert silent((ROOT / "Makefile").read_text()) == []


@pytest.mark.parametrize(
    "rule",
    [
        "new: old  ## what | how long | where\n\tdo it",
        "new:  ## what | how long\n\t$(SAY)",
        "new:\n\t$(SAY)",
        "newer:  ## what | how long | where\n\t$(SAY)",
    ],
)
def test_a_target_without_its_line_is_caught(rule: str) -> None:
    assert silent(f".PHONY: help new\n{rule}\n") == ["new"]


def test_every_command_has_its_line() -> None:
    for word in COMMANDS:
        assert re.fullmatch(rf"{word}: \S.*; takes \S.*; result: \S.*", announcement(word))


def test_time_is_that_of_the_processors_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "harm", ("does", 30, "there"))
    for processors, takes in ((2, "about 30 min on 2"), (8, "about 8 min on 8"), (100, "about 1 min on 100")):
        monkeypatch.setattr(forks, "processors", lambda processors=processors: processors)
        assert announcement("harm") == f"harm: does; takes {takes} processors; result: there"


def test_a_command_prints_it_on_a_terminal_alone() -> None:
    command = [sys.executable, "run.py", "compare", "nowhere"]
    reader, terminal = pty.openpty()
    with os.fdopen(reader, "rb", buffering=0) as said, os.fdopen(terminal, "wb") as shown:
        subprocess.run(command, cwd=ROOT, stderr=shown, check=False)
        assert said.read(1000).decode().startswith(announcement("compare"))
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).stderr.startswith(b"compare: nowhere")
