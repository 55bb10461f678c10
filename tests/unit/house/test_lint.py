"""What may not stand in the sources: code from data, shells, open doors, waits without end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from runtime.version import PACKAGES
from strategies.protocol import AnyCommand, AnyEvent
from tests.support.runs import ROOT

SOURCES = ["run.py", "scripts", "stragglab", *PACKAGES]
PICKLING = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "jsonpickle", "joblib"}
CALLS = {
    "eval": "evaluates text",
    "exec": "executes text",
    "compile": "compiles text",
    "__import__": "imports by name",
    "os.system": "runs a shell",
    "os.popen": "runs a shell",
    "subprocess.getoutput": "runs a shell",
    "subprocess.getstatusoutput": "runs a shell",
    "yaml.load": "builds objects from text",
    "yaml.load_all": "builds objects from text",
    "torch.load": "unpickles",
    "torch.save": "pickles",
    "tempfile.mktemp": "names a file that somebody else may make first",
}
ENDINGS = (".read_pickle", "unsafe_load", "full_load", "unsafe_load_all", "full_load_all", "UnsafeLoader")
"""Of functions and loaders that execute what a file says, whatever library they are of."""
OPEN_DOORS = {"0.0.0.0", "::", "::0"}
ENDLESS = {"wait", "communicate", "join"}
"""Of processes and threads: without an argument they wait forever."""


SUSPECT = re.compile(
    rf"\b(?:{'|'.join(PICKLING)}|eval|exec|compile|__import__|system|popen|mktemp|shell|allow_pickle)\b"
    r"|getoutput|getstatusoutput|yaml\.load|torch\.|read_pickle|unsafe_|full_load|UnsafeLoader|0\.0\.0\.0|[\"']::0?[\"']"
    rf"|\.(?:{'|'.join(ENDLESS)})\(\)"
)
"""A word of all that is looked for: a file without one need not be parsed."""


def findings(source: str, where: str = "source") -> list[str]:
    """What is wrong with one file, each with its line."""
    nodes = ast.walk(ast.parse(source)) if SUSPECT.search(source) else ()
    return [f"{where}:{getattr(node, 'lineno', 0)}: {what}" for node in nodes for what in problems_of(node)]


def problems_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (f"imports {name.name}" for name in names if name.name.partition(".")[0] in PICKLING)
        case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in PICKLING:
            yield f"imports {module}"
        case ast.Constant(value=str(text)) if text in OPEN_DOORS:
            yield f"{text} is an open door"
        case ast.Attribute() | ast.Name() if ast.unparse(node).endswith(ENDINGS):
            yield f"{ast.unparse(node)} executes what a file says"
        case ast.Call():
            yield from problems_of_call(node)


def problems_of_call(call: ast.Call) -> Iterator[str]:
    name = ast.unparse(call.func)
    if name in CALLS:
        yield f"{name} {CALLS[name]}"
    for keyword in call.keywords:
        given = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        if keyword.arg == "shell" and given is not False:
            yield f"{name} with a shell"
        if keyword.arg == "allow_pickle" and given is not False:
            yield f"{name} allows pickles"
    ending = name.rpartition(".")[2]
    if isinstance(call.func, ast.Attribute) and ending in ENDLESS and not call.args and not call.keywords:
        yield f"{name}() waits forever"


def sources() -> list[Path]:
    found = [ROOT / "run.py"]
    for package in SOURCES[1:]:
        found += sorted((ROOT / package).rglob("*.py"))
    return found


def test_the_sources_are_clean() -> None:
    files = sources()
    assert len(files) > 60
    found = [line for path in files for line in findings(path.read_text(), str(path.relative_to(ROOT)))]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "import pickle",
        "from cloudpickle import loads",
        "eval('1')",
        "subprocess.run('ls', shell=True)",
        "np.load(path, allow_pickle=True)",
        "torch.load(path, weights_only=False)",
        "yaml.load(text)",
        "yaml.full_load(text)",
        "yaml.parse(text, Loader=yaml.UnsafeLoader)",
        "sock.bind(('0.0.0.0', 0))",
        "tempfile.mktemp()",
        "process.wait()",
    ],
)
def test_what_is_planted_is_found(planted: str) -> None:
    assert len(findings(planted)) == 1


@pytest.mark.parametrize(
    "harmless",
    [
        "module.eval()",
        "re.compile('x')",
        "process.wait(5)",
        "np.load(path, allow_pickle=False)",
        "subprocess.run(words, shell=False)",
        "HOST = '127.0.0.1'",
    ],
)
def test_what_is_harmless_is_not(harmless: str) -> None:
    assert findings(harmless) == []


MAX_FILES = 12
OLDER = {"Arrived": 13, "Restored": 14, "ServerLost": 14, "Launch": 13}
"""As many as there were; three of the files of ``Restored`` mean the recovery's effect of that name."""
SPELLING_ROOMS = ("strategies/protocol", "runtime", "analysis")
"""Strategies themselves use the vocabulary; they are not what an addition costs."""
VERBS = sorted(kind.__name__ for kind in (*get_args(AnyEvent), *get_args(AnyCommand)))


def names_in(source: str) -> set[str]:
    """Everything that code names: not what comments and docstrings say."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) | ast.ClassDef(name=name):
                found.add(name)
    return found


def test_few_files_spell_it_out() -> None:
    """A text that has the word is parsed where there are too many such: a comment does not count."""
    files = [path for room in SPELLING_ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in files}
    words = {name: {*re.findall(r"\b[A-Z]\w+", text)} for name, text in texts.items()}
    for verb in VERBS:
        most, found = OLDER.get(verb, MAX_FILES), [name for name, has in words.items() if verb in has]
        if len(found) > most:
            found = [name for name in found if verb in names_in(texts[name])]
        assert len(found) <= most, (verb, found)


def test_what_code_names_is_found() -> None:
    source = '"""Observed."""\nfrom a import Woke\nclass Lost: ...\nmatch x:\n    case inputs.Joined(): Apply()\n'
    assert names_in(source) >= {"Woke", "Lost", "Joined", "Apply"}
    assert "Observed" not in names_in(source)


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


SPLIT_SUSPECT = re.compile(r"[\"']:[\"']|worker:|server:|\}:\{")
"""A text without any of these need not be parsed."""


def by_hand(text: str) -> Iterator[tuple[int, str]]:
    """(line, what) of every place that takes the name of a node apart or puts one together."""
    for node in ast.walk(ast.parse(text)) if SPLIT_SUSPECT.search(text) else ():
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
