"""The help: a line about every choice, and stragglers that cannot be combined with the rest are marked."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.config.choices import NO_GROUPS, WIDTH, Choice, format_group, headline, ordered, read_choices
from runtime.errors import ConfigError
from runtime.house import ROOT
from runtime.run.preflight import preflight
from stragglab.commands import COMMANDS


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# BSP: one update per round (Valiant, CACM 1990). More.\nx: 1\n", "BSP: one update per round"),
        ("# @package _global_\n\n# First\n# and second line (a (nested) remark).\n# Third.", "First and second line"),
        ("# 0.5 of it: version 1.3 counts", "0.5 of it: version 1.3 counts"),
        ("x: 1  # no\n# neither\n", ""),
        (f"# A cluster with many hosts: {'word ' * 40}.", "A cluster with many hosts ..."),
    ],
)
def test_a_line_is_the_first_sentence(text: str, line: str) -> None:
    assert headline(text) == line


def test_every_choice_of_ours_has_a_line() -> None:
    for group in ordered(path.name for path in (ROOT / "conf").iterdir() if path.is_dir()):
        choices = read_choices(group, [path.stem for path in (ROOT / "conf" / group).glob("*.yaml")], [ROOT / "conf"])
        assert choices
        assert group not in NO_GROUPS
        assert [choice.name for choice in choices if not 0 < len(choice.line) <= WIDTH] == []


def test_columns_marks_and_reasons() -> None:
    choices = [Choice("a", "One"), Choice("longer", "Two"), Choice("c", "Three")]
    lines = format_group("mine", choices, "a", {"longer": "x=1: wrong; use x=2", "c": "x=1: wrong; use x=2"})
    assert lines == [
        "mine",
        "* a       One",
        "- longer  Two",
        "- c       Three",
        "  - longer, c: not here. x=1: wrong; use x=2",
    ]


def marked(text: str) -> set[str]:
    """Stragglers that the help says are not possible."""
    section = text.partition("\nstraggler: ")[2].partition("\n\n")[0]
    return {line.split()[1] for line in section.splitlines() if line.startswith("- ")}


def test_what_the_help_marks_is_refused() -> None:
    text = preflight(["--help"]).shows
    assert "\n* bsp " in text
    assert "JCT: job completion time. TTA: time to accuracy" in text
    assert {"cpu_throttle", "link_throttle", "disrupted_host"} < marked(text)
    assert not {"kill", "transient", "none"} & marked(text)
    assert not marked(preflight(["--help", "runtime=virtual", "cluster=hosts", "workload=digits_cnn"]).shows)
    with pytest.raises(ConfigError):
        preflight(["straggler=on_off"])
    preflight(["straggler=kill"])


def test_own_choices_are_listed(tmp_path: Path) -> None:
    (tmp_path / "strategy").mkdir()
    (tmp_path / "strategy" / "mine.yaml").write_text(
        "# Mine: waits for nobody. Really.\n_target_: strategies.basic.asp.ASP\n"
    )
    text = preflight(["--help", "--config-dir", str(tmp_path), "jobs=poisson"]).shows
    assert [line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith("  mine ")] == [
        "Mine: waits for nobody"
    ]
    assert not marked(text), "a set of jobs: nothing is checked"


def test_the_help_names_every_command() -> None:
    text = preflight(["--help"]).shows.partition("== Commands")[2].partition("== Sweeps")[0]
    assert [line.split()[0] for line in text.splitlines()[1:] if line] == list(COMMANDS)
    files = {path.stem for path in (ROOT / "stragglab" / "commands").glob("*.py")}
    assert files - {"__init__", "run"} == set(COMMANDS)
