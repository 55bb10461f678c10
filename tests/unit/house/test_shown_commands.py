"""Every command that a page shows can be given: its settings compose, its options and targets exist, its files, too."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from importlib import import_module
from io import StringIO

import pytest

from runtime.config.command_line import parse_arguments
from runtime.config.compose import composing
from runtime.config.parse import parse
from runtime.errors import ConfigError
from stragglab.commands import COMMANDS
from tests.support.runs import ROOT

PAGES = ["README.md", "DESIGN.md", "CONTRIBUTING.md", "predictors/fitted/README.md"]
PAGES += sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^    (?=python |make |pytest )(.*)$", re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
START = re.compile(r"(?:^|[;|]|\bdo )\s*(?:[A-Z_]+=\S+ )*(python run\.py|python -m scripts\.\S+|pytest|make)(?= |$)")
END = re.compile(r"\s+#|;|\s[&|<>]")
OPEN = re.compile(r"\.\.\.|<|\$\w|(^|=)[A-Z_]+$|=my_")
"""In a word that stands for others: ``runs/...``, ``<that sweep>``, ``$HOME``, ``DIR``, ``strategy=my_strategy``."""
OF_OTHERS = re.compile(r"hydra/(launcher|sweeper)=|hydra\.(launcher|sweeper)\.")
"""Settings of plugins of Hydra's that may not be installed."""


def commands(text: str) -> Iterator[str]:
    """The commands of a page, one line each, without environment and comment."""
    plain = BLOCK.sub("", text)
    pieces = [*BLOCK.findall(text), *INDENTED.findall(plain), *INLINE.findall(plain)]
    lines = iter("\n".join(pieces).replace("\\\n", " ").splitlines())
    for line in lines:
        for found in START.finditer(line):
            command = END.split(line[found.start(1) :])[0]
            while command.count("'") % 2:  # a quoted word of several lines
                command += END.split(next(lines))[0]
            yield command.strip()


def wrong(command: str) -> str:
    """Why nobody can give this command, by what it says; empty if somebody can."""
    first, *words = [word for word in shlex.split(command) if not OPEN.search(word)]
    if first == "make":
        return wrong_target(words)
    if first == "pytest":
        return next((f"{word}: no such file" for word in files(words) if not (ROOT / word).exists()), "")
    if words[0] == "-m":
        return wrong_option(words[1], words[2:])
    if len(words) > 1 and words[1] in COMMANDS:
        return wrong_option(f"stragglab.commands.{words[1]}", words[2:])
    return wrong_setting([word for word in words[1:] if not OF_OTHERS.match(word)])


def files(words: Sequence[str]) -> list[str]:
    return [word.partition("::")[0] for word in words if word.startswith("tests/")]


def wrong_target(words: Sequence[str]) -> str:
    text = (ROOT / "Makefile").read_text()
    for word in words:
        name, is_variable, value = word.partition("=")
        if not re.search(rf"\$\({name}\)|\b{name},|\({name} " if is_variable else rf"^{name}:", text, re.MULTILINE):
            return f"make {word}: not in the Makefile"
        if name == "EXPERIMENT" and not list((ROOT / "conf" / "experiment").rglob(f"{value}.yaml")):
            return f"{word}: no such experiment"
    return ""


def wrong_option(module: str, words: Sequence[str]) -> str:
    if not (ROOT / f"{module.replace('.', '/')}.py").exists():
        return f"{module}: no such module"
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    if not options or set(options) == {"--help"}:
        return ""
    text = help_of(module)
    return next((f"{module} {one}: not in its help" for one in options if not re.search(rf"{one}\b", text)), "")


@cache
def help_of(module: str) -> str:
    """What the program prints about itself."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(out), suppress(SystemExit):
        import_module(module).main(["--help"])
    return out.getvalue()


def wrong_setting(words: Sequence[str]) -> str:
    try:
        with composing(parse_arguments([word for word in words if word not in ("--help", "--version")])) as composer:
            parse(next(iter(composer.jobs(composer.master()))).raw)
    except ConfigError as error:
        return str(error)
    return ""


def shown() -> list[str]:
    return list(dict.fromkeys(command for page in PAGES for command in commands((ROOT / page).read_text())))


@pytest.mark.few(15)
@pytest.mark.parametrize("command", shown())
def test_a_command_that_a_page_shows_can_be_given(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert wrong(command) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("```\npython run.py strategy=ssp strategy.bonud=3   # no\n```", "did you mean strategy.bound?"),
        ("```\npython run.py strategy=ssp \\\n  cluster.num_workers=-1\n```", "must be at least 1"),
        ("Try `python run.py straggler=transiet`.", "did you mean transient?"),
        ("```\nfor s in a b; do python run.py -m straggler=$s seeds=0,1; done\n```", "did you mean seed?"),
        ("`python run.py compare runs/... --basline bsp`", "--basline: not in its help"),
        ("    python -m scripts.fitting.fit_kapa --help", "no such module"),
        ("```bash\npytest tests/unit/core/test_gone.py -m bench\n```", "no such file"),
        ("`make figrues`", "not in the Makefile"),
        ("`make figures RUN=runs/x`", "not in the Makefile"),
        ("`make figures EXPERIMENT=antdt_table33`", "no such experiment"),
    ],
)
def test_one_that_nobody_can_give_is_caught(text: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (command,) = commands(text)
    assert why in wrong(command)


def test_pages_show_commands_of_every_kind() -> None:
    found = shown()
    assert len(found) > 200
    for start in ("make ", "pytest ", "python run.py -m ", "python run.py verify ", "python -m scripts."):
        assert any(command.startswith(start) for command in found), start
