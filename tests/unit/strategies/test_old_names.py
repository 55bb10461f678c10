"""Moved modules are found by their old names: by an import, and by a ``_target_`` of a record or a project."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from runtime.config.instantiate import locate
from runtime.errors import ConfigError
from strategies.old_names import full_name, places

ROOT = Path(__file__).resolve().parents[3]
OLD = {
    ".".join(word for word in ("strategies", folder, module.partition("=")[0]) if word != "."): module.partition("=")[2]
    for folder, modules in yaml.safe_load(Path(__file__).with_name("names_of_0_1_0.yaml").read_text()).items()
    for module in modules.split()
}
PLACES = sorted(places().items())


@pytest.mark.parametrize("module", OLD)
def test_a_module_of_0_1_0_is_found_with_its_names(module: str) -> None:
    for name in OLD[module].split(","):
        found = getattr(import_module(module), name)
        if isinstance(found, type):
            assert found.__name__ == name
            assert locate(f"{module}.{name}") is locate(f"stragglab.{module}.{name}") is found


@pytest.mark.parametrize(("old", "new"), PLACES, ids=[old for old, _ in PLACES])
def test_an_old_name_stands_for_modules_that_exist(old: str, new: tuple[str, ...]) -> None:
    assert [place for place in new if find_spec(full_name(place)) is None] == []
    assert not (ROOT / "strategies" / old.replace(".", "/")).with_suffix(".py").exists()


def test_an_old_module_has_only_the_names_that_it_had() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from strategies.screens.descent import Nothing")
    with pytest.raises(ConfigError, match="has no class Nothing"):
        locate("strategies.screens.descent.Nothing")
    with pytest.raises(ModuleNotFoundError, match=r"strategies\.screens\.ascent"):
        import_module("strategies.screens.ascent")


def test_imports_work_in_new_processes(tmp_path: Path) -> None:
    text = (
        "import strategies.screens.descent as old; from strategies.screens import descent; "
        "import stragglab; from stragglab.strategies.screens.descent import DescentScreen; "
        "assert old is descent and old.DescentScreen is DescentScreen; print(DescentScreen.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "strategies.zeno_pp.strategy\n", done.stderr
    (tmp_path / "gates" / "__pycache__").mkdir(parents=True)
    text = (
        f"import strategies; strategies.__path__.append({str(tmp_path)!r}); "
        "from strategies.gates import AllGate; print(AllGate.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("strategies.parts.gates"), done.stderr
