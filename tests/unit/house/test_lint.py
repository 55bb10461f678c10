"""What may not stand in the sources: code from data, shells, open doors, waits without end."""

from __future__ import annotations

import ast
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


def findings(source: str, where: str = "source") -> list[str]:
    """What is wrong with one file, each with its line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        for what in problems_of(node):
            found.append(f"{where}:{getattr(node, 'lineno', 0)}: {what}")
    return found


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
        "from multiprocessing import Pool\nimport dill.settings",
        "eval('1')",
        "import os\nos.system('ls')",
        "subprocess.run('ls', shell=True)",
        "subprocess.Popen(words, shell=wanted)",
        "np.load(path, allow_pickle=True)",
        "torch.load(path, weights_only=False)",
        "yaml.load(text)",
        "pd.read_pickle(path)",
        "yaml.full_load(text)",
        "yaml.parse(text, Loader=yaml.UnsafeLoader)",
        "sock.bind(('0.0.0.0', 0))",
        "HOST = '::'",
        "tempfile.mktemp()",
        "process.wait()",
        "class A:\n    def f(self):\n        self.agent.wait()",
    ],
)
def test_what_is_planted_is_found(planted: str) -> None:
    assert len(findings(planted)) == 1


@pytest.mark.parametrize(
    "harmless",
    [
        "module.eval()",
        "', '.join(words)",
        "re.compile('x')",
        "process.wait(5)",
        "np.load(path, allow_pickle=False)",
        "subprocess.run(words, shell=False)",
        "HOST = '127.0.0.1'",
        "'do not eval or pickle this'",
    ],
)
def test_what_is_harmless_is_not(harmless: str) -> None:
    assert findings(harmless) == []
