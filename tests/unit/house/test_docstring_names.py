"""A class or method that a docstring names exists: those that were renamed or deleted lead a reader nowhere."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.runs import ROOT

ROOMS = ("analysis", "injectors", "predictors", "reading", "runtime", "scripts", "strategies", "stragglab", "workloads")
OF_OTHERS = {
    "ArgumentParser": "argparse's",
    "DistributedDataParallel": "PyTorch's",
    "RandomState": "numpy's",
    "Repartitioned": "a word in the column `what` of a table",
    "Wave": "a struct of C",
}
"""Names with a capital that no module of ours defines or imports."""
MEMBER = re.compile(r"(?<!`)``([A-Z][A-Za-z]+)\.([a-z_][a-z_0-9]*)")
CLASS = re.compile(r"(?<!`)``([A-Z][a-z]+[A-Za-z]*)``")
ROLE = re.compile(r":(class|meth|func|mod|attr|data):`~?([A-Za-z_.0-9]+)`")


class Names(NamedTuple):
    """What the sources define: members and bases by class, and all names at the top of modules."""

    members: dict[str, set[str]]
    bases: dict[str, set[str]]
    others: set[str]
    modules: set[str]

    def has(self, owner: str, member: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a class of this name, or one that it inherits from, has the member."""
        if owner in seen:
            return False
        above = self.bases.get(owner, set())
        return member in self.members.get(owner, ()) or any(self.has(one, member, seen | {owner}) for one in above)


def members(body: list[ast.stmt]) -> Iterator[str]:
    """Methods and fields that the body of a class defines."""
    for one in body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield one.name
            targets = (part for part in ast.walk(one) if isinstance(part, ast.Attribute))
            yield from (part.attr for part in targets if ast.unparse(part.value) == "self")
        elif isinstance(one, ast.AnnAssign | ast.Assign):
            targets = [one.target] if isinstance(one, ast.AnnAssign) else one.targets
            yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


@cache
def sources() -> dict[Path, ast.Module]:
    paths = (path for room in ROOMS for path in sorted(ROOT.glob(f"{room}/**/*.py")))
    return {path: ast.parse(path.read_text()) for path in paths}


@cache
def names() -> Names:
    found = Names({}, {}, set(dir(builtins)), set())
    for path, tree in sources().items():
        found.modules.add(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.members.setdefault(node.name, set()).update(members(node.body))
                above = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
                found.bases.setdefault(node.name, set()).update(above)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.others.add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found.others.update((one.asname or one.name).partition(".")[0] for one in node.names)
        found.others.update(members(tree.body))
    return found


def lead_nowhere(text: str, known: Names) -> Iterator[str]:
    """What a docstring names and nothing defines."""
    for owner, member in MEMBER.findall(text):
        if owner not in OF_OTHERS and not known.has(owner, member):
            yield f"{owner}.{member}"
    for name in CLASS.findall(text):
        if name not in OF_OTHERS and name not in known.members and name not in known.others:
            yield name
    for role, path in ROLE.findall(text):
        *above, last = path.split(".")
        if role == "mod":
            exists = path in known.modules
        elif role in ("meth", "attr") and above and above[-1] in known.members:
            exists = known.has(above[-1], last)
        else:
            exists = last in known.members or last in known.others or any(last in one for one in known.members.values())
        if not exists:
            yield f":{role}:{path}"


@pytest.mark.parametrize("room", ROOMS)
def test_names_in_docstrings_exist(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {name}"
        for path, tree in sources().items()
        if path.is_relative_to(ROOT / room)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for name in lead_nowhere(node.value.value, names())
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "answers with ``Coordinator.score_parts``",
        "see ``NoSuchClass``",
        ":meth:`Coordinator.nothing`",
        ":mod:`runtime.core.nothing`",
        ":class:`runtime.core.coordinator.Nothing`",
    ],
)
def test_a_name_without_a_thing_is_found(text: str) -> None:
    assert list(lead_nowhere(text, names()))


def test_what_exists_is_not_found() -> None:
    text = "``Coordinator.receive``, ``Apply``, :meth:`Coordinator.receive`, :mod:`runtime.core`, :class:`ConfigError`"
    assert not list(lead_nowhere(text, names()))
