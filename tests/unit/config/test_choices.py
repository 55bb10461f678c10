"""The help: a line about every choice, and stragglers that cannot be combined with the rest are marked."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.config.choices import NO_GROUPS, WIDTH, Choice, format_group, headline, merged, ordered, read_choices
from runtime.config.instantiate import locate
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


CONF = Path(__file__).resolve().parents[3] / "conf" / "strategy"
VARIANTS = {
    "antdt_nd_asp": {"data"},
    "asp_even": {"data"},
    **{f"coding_{name}": {"scheme"} for name in ("cyclic", "fractional", "group_based", "naive")},
    "composed": {"gate", "load", "detectors", "actions"},
    "decoupled_diloco": {"quorum", "grace_s"},
    "lb_bsp_gpu": {"kind"},
    "lb_bsp_star": {"unanimous"},
    "star_ahead": {"pause"},
    "star_h": {"kappa_lr"},
    "star_ml": {"learning"},
    "streaming_diloco": {"fragments", "delay", "mixing", "outer_lr"},
    "sync_switch_elastic": {"straggler_policy", "data"},
    "sync_switch_restart": {"switch"},
    "watchdog": {"gate", "load", "detectors", "actions", "decide_every_s"},
}
"""Settings by which a YAML differs from others of the same class, and those that it takes from another section."""


def text_of(value: Any) -> str:
    """A default as YAML has it."""
    if isinstance(value, bool | None):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def as_written(word: str) -> str:
    """A word of a comment; numbers as :func:`text_of` writes them."""
    return f"{float(word):g}" if re.fullmatch(r"\d+(\.\d+)?", word) else word


def target_of(path: Path) -> str:
    """The class of a YAML, or of the one that it changes."""
    return str(merged(path.stem, [path.parent])["_target_"])


def unexplained(text: str, target: str) -> Iterator[str]:
    """Settings whose values are not the defaults of the class, without a comment that names these."""
    settings = yaml.safe_load(text)
    for field in dataclasses.fields(locate(target)):
        made = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        default = list(made) if isinstance(made, tuple) else made
        if field.name not in settings or settings[field.name] == default:
            continue
        lines = re.search(rf"^{field.name}:.*(?:\n +#.*)*", text, re.MULTILINE)
        comment = " ".join(line.partition("#")[2] for line in lines[0].splitlines())
        if text_of(default) not in map(as_written, re.findall(r"[\w.]*\w", comment)):
            yield field.name


def test_a_value_that_is_not_the_default_names_it() -> None:
    for path in CONF.glob("*.yaml"):
        assert set(unexplained(path.read_text(), target_of(path))) <= VARIANTS.get(path.stem, set()), path


def test_an_unexplained_value_is_found() -> None:
    text = "bound: 5  # iterations, 13 elsewhere\ndata: even  # not dynamic\n"
    assert list(unexplained(text, "strategies.basic.ssp.SSP")) == ["bound"]


def undocumented(cls: type) -> set[str]:
    """Fields of which no docstring of the class or of one that it extends has a line of their own."""
    docs = "\n".join(one.__doc__ or "" for one in cls.__mro__ if dataclasses.is_dataclass(one))
    own = set(re.findall(r"^ +(\w+): ", docs, re.MULTILINE))
    return {field.name for field in dataclasses.fields(cls)} - own


def test_a_strategy_documents_every_setting() -> None:
    for target in {target_of(path) for path in CONF.glob("*.yaml")}:
        assert undocumented(locate(target)) == set(), target
    cls = dataclasses.make_dataclass("Silent", [("spoken", int), ("silent", int)])
    cls.__doc__ = "Has settings.\n\n    Attributes:\n        spoken: a number.\n"
    assert undocumented(cls) == {"silent"}
