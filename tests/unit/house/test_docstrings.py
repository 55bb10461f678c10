"""A docstring says something: public code has one, none only repeats the name, and paper tests cite their paper.

A class or method that a docstring names exists: those that were renamed or deleted lead a reader nowhere.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.support.runs import ROOT

PACKAGES = ["analysis", "injectors", "predictors", "reading", "runtime", "strategies", "workloads"]
FRAMEWORK = {"call", "forward"}
"""What Keras and PyTorch document: a layer's computation, whose shapes its class states."""
ROOMS = [*PACKAGES, "scripts", "stragglab"]
INFORMATIVE_ROOMS = [*ROOMS, "tests"]
MIN_WORDS = 4


def undocumented(tree: ast.Module, documented: set[str]) -> list[str]:
    """Public methods without a docstring that implement no documented method of that name."""
    return [
        f"{one.name}.{node.name}"
        for one in tree.body
        if isinstance(one, ast.ClassDef) and not one.name.startswith("_")
        for node in one.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and node.name not in documented
        and not (one.bases and node.name in FRAMEWORK)
    ]


SHORT = re.compile(r':(?:  #.*)?\n +"""(.*?)"""$', re.MULTILINE)
"""A docstring of one line, as formatted: of so few words, it is of one. Parsing all tests would take seconds."""


def empty_words(text: str) -> list[str]:
    """Docstrings of fewer than ``MIN_WORDS`` words."""
    return [found for found in SHORT.findall(text) if len(found.split()) < MIN_WORDS]


def test_no_docstring_is_a_mere_word() -> None:
    for room in INFORMATIVE_ROOMS:
        found = {str(path): empty_words(path.read_text()) for path in sorted((ROOT / room).rglob("*.py"))}
        assert found
        assert {name: words for name, words in found.items() if words} == {}


def test_what_is_not_documented_is_found() -> None:
    """Negative control: an implementation passes, a new public method and an empty phrase do not."""
    text = (
        'class A:\n    """A class with methods."""\n    def update(self): ...\n    def novel(self): ...\n'
        '    def __post_init__(self):\n        """Check it."""\n    def _inner(self): ...\n'
    )
    assert undocumented(ast.parse(text), {"update"}) == ["A.novel"]
    assert empty_words(text) == ["Check it."]


CITATION = re.compile(
    r"[Ss]ections? [\"IVX\d]|\bEqs?\. \d|Algorithms? \d|Figures? \d|figure \d|Tables? [IVX\d]|Theorem|Lemma|Example \d"
    r"|[Ss]lides? \d|[Dd]efinition of|[Aa]bstract|[Pp]ublished code|[Dd]eparture|[Nn]egative control|Beyond the paper"
)
"""Where in its paper a test's claim stands, or that it is about something the paper leaves open."""


def uncited(tree: ast.Module) -> list[str]:
    """Names of the tests whose docstring names no place in a paper."""
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not CITATION.search(ast.get_docstring(node) or "")
    ]


def test_paper_tests_cite_their_paper() -> None:
    for path in sorted((ROOT / "tests/paper").glob("test_*.py")):
        assert uncited(ast.parse(path.read_text())) == [], path


def test_a_paper_test_without_a_citation_is_found() -> None:
    """Negative control: a number worked by hand is no citation."""
    planted = ast.parse(
        'def test_a():\n    """Section VI-A: the mean."""\ndef test_b():\n    """4 s."""\ndef test_c(): ...\n'
    )
    assert uncited(planted) == ["test_b", "test_c"]


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
    """Methods and fields that a body defines."""
    for one in body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield one.name
        elif isinstance(one, ast.AnnAssign | ast.Assign):
            targets = [one.target] if isinstance(one, ast.AnnAssign) else one.targets
            yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements, and none of their expressions, which are most of a tree."""
    for one in body:
        yield one
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(one, name, []))


class Sources(NamedTuple):
    """What one reading of all files finds: parsing takes most of the time, and the trees much memory."""

    names: Names
    texts: list[tuple[str, str]]
    """(place, text) of every text that stands by itself, as docstrings do."""
    documented: set[str]
    """Names of the methods that some class of the packages with a docstring for them defines."""
    undocumented: list[tuple[str, str]]
    """(file, method) in the packages, whatever other files document."""


@cache
def read() -> Sources:
    found = Names({}, {}, set(dir(builtins)), set())
    texts, documented, missing = list[tuple[str, str]](), set[str](), list[tuple[str, str]]()
    for path in (path for room in ROOMS for path in sorted(ROOT.glob(f"{room}/**/*.py"))):
        source = path.read_text()
        name, tree, lines = path.relative_to(ROOT), ast.parse(source), source.splitlines()
        found.modules.add(".".join(name.with_suffix("").parts).removesuffix(".__init__"))
        for node in statements(tree.body):
            match node:
                case ast.ClassDef():
                    if name.parts[0] in PACKAGES:
                        methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
                        documented.update(one.name for one in methods if ast.get_docstring(one))
                    own = found.members.setdefault(node.name, set())
                    own.update(members(node.body))
                    own.update(re.findall(r"\bself\.(\w+)", "\n".join(lines[node.lineno - 1 : node.end_lineno])))
                    above = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
                    found.bases.setdefault(node.name, set()).update(above)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    found.others.add(node.name)
                case ast.Import() | ast.ImportFrom():
                    found.others.update((one.asname or one.name).partition(".")[0] for one in node.names)
                case ast.Expr(value=ast.Constant(value=str(text))):
                    texts.append((f"{name}:{node.lineno}", text))
        found.others.update(members(tree.body))
        missing += [(str(name), one) for one in undocumented(tree, set()) if name.parts[0] in PACKAGES]
    return Sources(found, texts, documented, missing)


def test_public_methods_are_documented_where_they_are_declared() -> None:
    found = read()
    assert {"handle", "plan"} <= found.documented
    missing = [(name, one) for name, one in found.undocumented if one.rpartition(".")[2] not in found.documented]
    assert not [f"{name}: {one}" for name, one in missing]


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


def test_names_in_docstrings_exist() -> None:
    wrong = [f"{place}: {name}" for place, text in read().texts for name in lead_nowhere(text, read().names)]
    assert not wrong, "\n".join(wrong)


def test_a_name_without_a_thing_is_found_and_what_exists_is_not() -> None:
    gone = ["``Coordinator.score_parts``", "``NoSuchClass``", ":meth:`Coordinator.nothing`", ":mod:`runtime.nothing`"]
    assert all(list(lead_nowhere(f"see {one}", read().names)) for one in [*gone, ":class:`runtime.core.Nothing`"])
    text = "``Coordinator.receive``, ``Apply``, :meth:`Coordinator.receive`, :mod:`runtime.core`, :class:`ConfigError`"
    assert not list(lead_nowhere(text, read().names))
