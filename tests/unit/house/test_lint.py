"""What may not stand in the sources: code from data, shells, open doors, waits without end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.version import PACKAGES
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
