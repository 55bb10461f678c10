"""The package: everything below one name, whatever else an environment holds; and in the repository the same names."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stragglab
from runtime import house
from runtime.config.instantiate import instantiate, is_allowed, locate
from runtime.errors import ConfigError
from scripts.packaging import packing
from strategies.parts.gates import AllGate
from strategies.protocol import Apply, Strategy

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("from runtime.errors import ConfigError\n", "from stragglab.runtime.errors import ConfigError\n"),
        ("from strategies import bsp  # é\n", "from stragglab.strategies import bsp  # é\n"),
        ("import runtime.live.agent\n", "import stragglab.runtime.live.agent\n"),
        ("import os, analysis.files as files\n", "import os, stragglab.analysis.files as files\n"),
        ('é = "é"; from scripts.gpu import x\n', 'é = "é"; from stragglab.scripts.gpu import x\n'),
        ("def f():\n    from tests.support import laws\n", "def f():\n    from stragglab.tests.support import laws\n"),
        ("from analysis_of_mine import x\nimport runtime_of_mine\n", None),
        ('"""See runtime.errors."""\nx = "runtime.errors"\n', None),
        ("from stragglab.running import run\nfrom . import runtime\n", None),
        ('x = "python -m scripts.fitting.y"\n', 'x = "python -m stragglab.scripts.fitting.y"\n'),
        ('x = "python run.py doctor"\n', 'x = "stragglab doctor"\n'),
        ("# python run.py verify DIR    # what it says\n", "# stragglab verify DIR        # what it says\n"),
    ],
)
def test_a_file_in_the_package(ours: str, theirs: str | None) -> None:
    assert packing.for_package(ours) == (ours if theirs is None else theirs)
    callback = (ROOT / "conf" / "hydra" / "callbacks" / "tensorboard.yaml").read_text()
    assert "_target_: stragglab.analysis.sinks.callback.Export\n" in packing.for_hydra(callback)
    assert packing.for_hydra("_target_: hydra.x\n# analysis.x\n") == "_target_: hydra.x\n# analysis.x\n"


def test_an_import_that_binds_a_name_in_use_is_refused() -> None:
    with pytest.raises(ValueError, match=r"line 1: import runtime\.errors"):
        packing.for_package("import runtime.errors\nraise runtime.errors.ConfigError('x')\n")


def shipped() -> list[Path]:
    layout, needed = packing.as_package(ROOT), packing.suite(ROOT)
    found = [ROOT / "run.py"]
    for package in layout.packages:
        folder = ROOT / layout.package_dir.get(package, package.replace(".", "/"))
        found += [
            path
            for path in sorted(folder.glob("*.py"))
            if packing.is_shipped(f"{package}.{path.stem}".removeprefix("stragglab."), needed)
        ]
    return found


def test_what_is_shipped_imports_only_what_is_shipped() -> None:
    """All but some files of two folders are shipped, so only files that name one of these are parsed."""
    paths = shipped()
    known = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths}
    known |= {name.removesuffix(".__init__") for name in known}
    assert len(known) > 700
    folders = {folder.replace("/", ".") for folder in packing.LOOSE}
    for path in paths:
        text = path.read_text()
        for name in packing.imported_modules(ast.parse(text)) if re.search(r"\b(scripts|tests)\b", text) else ():
            if name.partition(".")[0] in (*packing.ROOTS, "stragglab"):
                assert {name, name.rpartition(".")[0]} & known or name in folders, (path, name)


def test_modules_named_in_texts_are_translated() -> None:
    naming = re.compile(rf'(import_module|resolve_name|"-m",)\(? ?f?"({"|".join(packing.ROOTS)})\.')
    assert naming.search('import_module("runtime.errors")')
    assert [path for path in shipped() if naming.search(path.read_text())] == []


def test_only_names_of_ours_are_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "PREFIX", "stragglab.")
    for own in ("strategies.basic.bsp", "runtime.errors", "tests.support.laws"):
        assert house.module_name(own) == f"stragglab.{own}"
        assert house.house_name(f"stragglab.{own}") == own
    for other in ("my_lab.strategy", "numpy", "strategies_of_mine.x", "stragglab.running"):
        assert house.module_name(other) == other
        assert house.house_name(other) == other


def test_the_library_has_what_a_strategy_needs() -> None:
    assert stragglab.Strategy is Strategy
    assert stragglab.Apply is Apply
    for name in dir(stragglab):
        assert getattr(stragglab, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = stragglab.Nonsense


def test_a_target_and_a_part_may_have_either_name() -> None:
    from stragglab.strategies.parts.gates import AllGate as same  # type: ignore[import-not-found]

    assert same is AllGate
    assert sys.modules["stragglab.strategies.parts.gates"] is sys.modules["strategies.parts.gates"]
    spec = sys.modules["strategies.parts.gates"].__spec__
    assert spec is not None
    assert spec.name == "strategies.parts.gates"
    assert importlib.util.find_spec("stragglab.nonsense") is None
    assert is_allowed("stragglab.analysis.sinks.callback.Export")
    assert locate("stragglab.strategies.basic.bsp.BSP") is locate("strategies.basic.bsp.BSP")
    with pytest.raises(ConfigError, match=r"there is no module strategies\.nonsense"):
        instantiate({"_target_": "stragglab.strategies.nonsense.X"})


NOTEBOOK = """
import analysis, runtime
import sys
from importlib.metadata import version
import stragglab
from stragglab import RunFailed, Strategy, load_run
from stragglab.strategies.parts.gates import AllGate
assert (analysis.whose, runtime.whose) == ("mine", "mine")
run = stragglab.run("runtime=virtual", "workload.epochs=1", "draw=false", into="record")
assert run.status == "done" and len(run.tables.iterations) > 10
assert load_run("record").meta["versions"]["stragglab"] == version("stragglab") == "0.1.0"
try:
    stragglab.run("strategy=bspp")
except RunFailed as error:
    assert str(error).startswith("stragglab: strategy=bspp: no such strategy; did you mean bsp?")
ours = {"injectors", "predictors", "reading", "strategies", "workloads", "scripts", "tests"}
assert not ours & {name.partition(".")[0] for name in sys.modules}
assert type(AllGate()).__module__ == "stragglab.strategies.parts.gates.all"
from stragglab.runtime import native
assert native.native(native.UPDATES) is not None and native.native(native.EVENTS) is not None
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_wheel_works_beside_packages_of_the_same_names(tmp_path: Path) -> None:
    def done(*words: str | Path, cwd: Path = tmp_path) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        one = subprocess.run(
            [str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )
        assert one.returncode == 0, one.stdout + one.stderr
        return one.stdout

    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    done(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ROOT)
    done(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python, command = tmp_path / "venv" / "bin" / "python", tmp_path / "venv" / "bin" / "stragglab"
    done(*pip, "--python", python, "install", "--no-deps", *tmp_path.glob("*.whl"))
    own = Path(done(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    assert {path.name for path in own.iterdir()} == {"stragglab", "stragglab-0.1.0.dist-info"}
    shared = Path(importlib.util.find_spec("numpy").origin).parents[1]  # type: ignore[union-attr, arg-type]
    (own / "others.pth").write_text(f"{shared}\n")
    user = tmp_path / "user"
    for name in ("analysis", "runtime"):
        (user / name).mkdir(parents=True)
        (user / name / "__init__.py").write_text("whose = 'mine'\n")
    (user / "notebook.py").write_text(NOTEBOOK)
    done(python, "notebook.py", cwd=user)
    assert done(command, "--version", cwd=user).startswith("Stragglab 0.1.0")
    assert "Usage: stragglab [-m]" in done(python, "-m", "stragglab", "--help", cwd=user)
    live = ("workload.epochs=1", "draw=false", "view=none", "straggler=none")
    done(command, *live, "hydra.run.dir=live", cwd=user)
    assert "nothing failed" in done(command, "verify", "live", cwd=user)
    done(command, "-m", "strategy=bsp,asp", "runtime=virtual", *live, "hydra.sweep.dir=sweep", cwd=user)
    assert "\\begin{tabular}" in done(command, "compare", "sweep", "--as", "latex", cwd=user)
    done(command, "new", "my_lab", cwd=user)
    assert "nothing failed" in done(command, "check", "my_lab", cwd=user)
