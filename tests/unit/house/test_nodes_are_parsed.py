"""A node has one name, ``worker:1``, which is parsed and written in one place: nobody splits such texts by hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("analysis", "injectors", "predictors", "reading", "runtime", "strategies")
ROLES = ("worker:", "server:")
SPLITS = ("partition", "rpartition", "split", "rsplit")
PARSERS = {"strategies/protocol/nodes.py", "injectors/plan.py", "analysis/records/nodes.py"}
"""The grammars: of nodes, of what a plan disturbs, of what records name."""
OTHER_TEXTS = {
    "analysis/figures/prediction.py": "a predictor and its settings",
    "runtime/core/coordinator.py": "the tag of a timer",
    "runtime/live/machines/cgroups.py": "a line of /proc/self/cgroup",
    "runtime/record/meta.py": "a line of /proc/cpuinfo",
    "runtime/run/checks/resources.py": "a line of /proc/meminfo",
}
"""Files that split other texts at a colon, and what that is."""


SUSPECT = re.compile(r"[\"']:[\"']|worker:|server:|\}:\{")
"""A text without any of these need not be parsed."""


def by_hand(text: str) -> Iterator[tuple[int, str]]:
    """(line, what) of every place that takes the name of a node apart or puts one together."""
    for node in ast.walk(ast.parse(text)) if SUSPECT.search(text) else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SPLITS:
            if [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)] == [":"]:
                yield node.lineno, f"{node.func.attr} at a colon"
        elif isinstance(node, ast.Constant) and node.value in ROLES:
            yield node.lineno, f"the text {node.value!r}"
        elif isinstance(node, ast.JoinedStr):
            match node.values:
                case [ast.FormattedValue(value=who), ast.Constant(value=":"), ast.FormattedValue()]:
                    if ast.unparse(who).rpartition(".")[2] == "role":
                        yield node.lineno, "a role, a colon and a number"


@cache
def found() -> dict[str, list[tuple[int, str]]]:
    """By file; not in the grammars themselves."""
    every = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if name not in PARSERS and (places := list(by_hand(path.read_text()))):
                every[name] = places
    return every


def test_nobody_splits_or_joins_the_name_of_a_node_by_hand() -> None:
    wrong = {
        name: [place for place in places if name not in OTHER_TEXTS or "at a colon" not in place[1]]
        for name, places in found().items()
    }
    assert not {name: places for name, places in wrong.items() if places}, "use strategies.protocol.NodeId"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('role, _, number = task.partition(":")', "partition at a colon"),
        ('number = int(task.split(":", 1)[1])', "split at a colon"),
        ('name = f"worker:{number}"', "the text 'worker:'"),
        ('name = f"{role}:{number}"', "a role, a colon and a number"),
        ('is_server = task.startswith("server:")', "the text 'server:'"),
        ('number = int(task.removeprefix("worker:"))', "the text 'worker:'"),
    ],
)
def test_what_is_split_by_hand_is_found(line: str, what: str) -> None:
    assert [problem for _, problem in by_hand(line)] == [what]
    for other in ('node = NodeId.parse("worker:1")', 'where = f"{path}:{number}"', 'words = text.split(",")'):
        assert not list(by_hand(other))
