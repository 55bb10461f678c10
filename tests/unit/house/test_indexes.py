"""Lists are complete: methods and their parameters, commands, the files of a package in the order to read them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from runtime.config.choices import merged
from scripts.docs.docs_site import method_cards, method_tables
from stragglab.commands import COMMANDS
from tests.support.runs import ROOT

METHODS = ROOT / "docs" / "methods" / "README.md"
BEGIN, END = "<!-- drawn from strategies/*/about.toml by pytest --rewrite -->", "<!-- end of methods -->"
CARDS = method_cards()
PAGE = ROOT / "docs" / "commands.md"
LAST = "\n## In the source, not here\n\n"
"""The last heading of a card, before a list."""
ELSEWHERE = {"hooks", "gates", "load", "monitoring", "modes", "nodes"}
"""What the reading order of ``strategies.parts.composition`` names of other folders."""
ORDERED = [
    path
    for folder in ("strategies", "runtime", "analysis")
    for path in sorted((ROOT / folder).rglob("__init__.py"))
    if "Files in reading order:" in path.read_text()
]


def targets() -> set[str]:
    """What ``make`` can be asked for, but for what only others need."""
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    return set(phony[1].split()) - {"help", "setup"}


def test_the_list_of_methods_shows_what_they_say(pytestconfig: pytest.Config) -> None:
    head, _, rest = METHODS.read_text().partition(BEGIN)
    tail = rest.partition(END)[2]
    wanted = "\n".join([f"{head}{BEGIN}", *method_tables(CARDS), "", f"{END}{tail}"])
    if pytestconfig.getoption("--rewrite"):
        METHODS.write_text(wanted)
    assert METHODS.read_text() == wanted


def test_every_strategy_and_every_card_is_in_a_table() -> None:
    names = {path.stem for path in (ROOT / "conf" / "strategy").glob("*.yaml")}
    assert {name for card in CARDS.values() for name in card.names} == names
    assert set(CARDS) == {path.name for path in METHODS.parent.glob("*.md")} - {METHODS.name}
    assert [file for file, card in CARDS.items() if not (card.family and card.does)] == []


def cards() -> dict[str, Path]:
    """The card of every strategy."""
    return {name: METHODS.parent / file for file, card in CARDS.items() for name in card.names}


def unnamed(parameters: set[str], text: str) -> set[str]:
    """Those parameters that no code of a page names, alone or as ``strategy.k=3``."""
    code = " ".join(re.findall(r"`([^`\n]*)`", text))
    return parameters.difference(re.findall(r"\w+", code))


def test_a_card_has_every_parameter_of_its_strategies() -> None:
    found = cards()
    lacking = {}
    for path in sorted((ROOT / "conf" / "strategy").glob("*.yaml")):
        parameters = set(merged(path.stem, [path.parent])) - {"_target_"}
        lacking[path.stem] = unnamed(parameters, found[path.stem].read_text())
    assert {name: words for name, words in lacking.items() if words} == {}
    assert unnamed({"k", "eager", "bound", "data"}, "`strategy.k=3` and `eager`; data, bound") == {"bound", "data"}


def listed_at_the_end(text: str) -> list[str]:
    """What a card says of its source at its end, an item a line; empty if it ends with anything else."""
    lines = text.rpartition(LAST)[2].splitlines() if LAST in text else []
    return lines if all(line.startswith("- ") for line in lines) else []


def test_a_card_ends_with_the_parts_of_its_source_that_are_not_here() -> None:
    few = {file: len(listed_at_the_end((METHODS.parent / file).read_text())) for file in CARDS}
    assert {file: count for file, count in few.items() if not 2 <= count <= 6} == {}
    for text in ("# A", f"# A{LAST}", f"# A{LAST}- b\n\n**More.** c\n", "# A\n- b\n- c\n"):
        assert listed_at_the_end(text) == []
    assert listed_at_the_end(f"# A{LAST}- b\n- c\n") == ["- b", "- c"]


def folders() -> dict[str, set[str]]:
    """The folder of every method, with the names of its YAMLs."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "conf" / "strategy").glob("*.yaml"):
        found.setdefault(str(merged(path.stem, [path.parent])["_target_"]).split(".")[1], set()).add(path.stem)
    return found


def lost(text: str) -> list[str]:
    """Paths and families of experiments that a docstring names between double backquotes, and that are not there."""
    families = [f"conf/experiment/{name}*.yaml" for name in re.findall(r"``(\w+)\*``", text)]
    paths = re.findall(r"``((?:docs|tests)/[\w/.*]+)``", text)
    return [name for name in families + paths if not list(ROOT.glob(name.replace("NAME", "*")))]


def test_a_method_names_its_configurations_card_and_paper_tests() -> None:
    for folder, names in folders().items():
        text = ast.get_docstring(ast.parse((ROOT / "strategies" / folder / "__init__.py").read_text())) or ""
        if folder != "parts":  # of the strategy that is made of parts
            wanted = {"tests/paper/test_"} | {f"``{name}``" for name in names}
            wanted |= {f"``docs/methods/{cards()[name].name}``" for name in names}
            assert {one for one in wanted if one not in text} == set(), folder
        assert lost(text) == []
    text = "``docs/methods/none.md``, ``none_*``, ``antdt_*``, ``tests/paper/test_NAME.py``"
    assert lost(text) == ["conf/experiment/none_*.yaml", "docs/methods/none.md"], "the negative control"


@pytest.mark.parametrize(
    ("program", "names"), [(r"python run\.py", set(COMMANDS)), ("make", targets())], ids=["run.py", "make"]
)
def test_every_command_is_in_the_list_of_commands(program: str, names: set[str]) -> None:
    """In a row of its own, and of its own program: ``check`` is a command of both."""
    first = "\n".join(row.partition(" | ")[0] for row in PAGE.read_text().splitlines())
    assert names - set(re.findall(rf"`{program} (\w+)", first)) == set()


def listed_wrongly(text: str, files: set[str]) -> set[str]:
    """The names of ``files`` that the reading order of a docstring lacks, and those that it has and nobody else."""
    order = text.partition("Files in reading order:")[2].partition("\n\n")[0]
    named = {name.rpartition(".")[2] for name in re.findall(r"``([\w.]+)``", order)}
    return files ^ (named - ELSEWHERE)


def test_a_reading_order_has_every_file_of_its_folder() -> None:
    for path in ORDERED:
        files = {file.stem for file in path.parent.glob("*.py")} - {"__init__"}
        assert listed_wrongly(path.read_text(), files) == set(), path
    text = "Files in reading order: ``shares`` (what), ``slack`` (what),\n``strategies.parts.hooks``.\n\n``other``"
    assert listed_wrongly(text, {"shares", "none"}) == {"slack", "none"}, "the negative control"
