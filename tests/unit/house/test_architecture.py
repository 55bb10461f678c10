"""The arrows and the bans hold; and whoever breaks one is caught (planted violations)."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import strategies
from runtime.config.choices import merged
from runtime.config.instantiate import locate
from scripts.packaging import packing
from strategies.basic.ssp import SSP
from strategies.protocol import Strategy

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = ("analysis", "injectors", "predictors", "reading", "runtime", "strategies", "workloads")
BANNED = {"time", "random", "socket", "os", "threading", "asyncio", "torch", "tensorflow", "numpy.random"}
PURE = ("strategies", "predictors", "injectors/arrivals", "injectors/patterns", "runtime/core")


ROOMS = {
    "runtime/core": "runtime.record.meta",
    "runtime/live/transport": "runtime.live.tasks.store",
    "runtime/virtual/machines": "runtime.virtual.tasks.workers",
    "analysis/records": "analysis.measures.stats",
    "strategies/parts/gates": "strategies.parts.load.shares",
    "strategies/parts": "strategies.basic.bsp",
    "stragglab/grids": "stragglab.commands.run",
}
"""A room, and what is above it, of every contract about rooms."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The packages and their rules, to plant violations in."""
    for name in (*PACKAGES, "stragglab"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def plant(root: Path, package: str, text: str) -> None:
    (root / package / "planted.py").write_text(f'"""Planted."""\n\n{text}\n')


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / "lint-imports"), "--no-cache"], cwd=root, capture_output=True, text=True, check=False
    )


def test_the_arrows_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_arrow_in_the_wrong_direction_is_caught(copy: Path) -> None:
    """One violation of every contract at once."""
    plant(copy, "runtime", "import analysis\nimport strategies.basic.bsp\nimport injectors.patterns\nimport workloads")
    plant(copy, "strategies", "import runtime.errors")
    plant(copy, "predictors", "import strategies.protocol")
    plant(copy, "injectors", "import runtime.errors")
    plant(copy, "workloads", "import runtime.errors")
    plant(copy, "reading", "import runtime.errors")
    plant(copy, "analysis", "import strategies.basic.bsp")
    with (copy / "analysis" / "records" / "run.py").open("a") as reader:
        reader.write("\nimport analysis.records.load\n")
    for room, above in ROOMS.items():
        plant(copy, room, f"import {above}")
    done = lint_imports(copy)
    contracts = [contract["name"] for contract in PROJECT["tool"]["importlinter"]["contracts"]]
    assert done.returncode != 0
    assert len(contracts) == 10 + len(ROOMS)
    for name in contracts:
        assert f"{name} BROKEN" in done.stdout


def test_the_command_for_jobs_only_composes_builds_and_reports() -> None:
    """It may know the runtime, and of the analysis how runs and sweeps end; it branches on no name."""
    tree = ast.parse((ROOT / "stragglab" / "commands" / "run.py").read_text())
    own = {name for name in imported(tree) if name.partition(".")[0] in PACKAGES}
    reports = {"analysis.reports.finish", "analysis.reports.sweep"}
    assert {name for name in own if not name.startswith("runtime.")} <= reports
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    texts = [ast.unparse(node) for node in compared for part in node.comparators if isinstance(part, ast.Constant)]
    assert texts == []


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def banned_imports(root: Path) -> list[str]:
    command = [str(BIN / "ruff"), "check", "--no-cache", "--select", "TID251", "--output-format", "concise", *PURE]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if "TID251" in line]


def test_what_decides_knows_no_clock_no_socket_and_no_framework(copy: Path) -> None:
    assert banned_imports(ROOT) == []
    planted = 0
    for package in PURE:
        bans = tomllib.loads((ROOT / package / "ruff.toml").read_text())["lint"]["flake8-tidy-imports"]["banned-api"]
        assert {*bans} == BANNED
        plant(copy, package, "\n".join(f"import {name}" for name in bans) + "\nfrom time import monotonic")
        planted += len(bans) + 1
    assert len(banned_imports(copy)) == planted


def family(cls: type) -> Iterator[type]:
    children: list[type] = cls.__subclasses__()
    for child in children:
        yield child
        yield from family(child)


def is_final(cls: type) -> bool:
    return getattr(cls, "__final__", False) and "__final__" in vars(cls)


def registered(conf: Path) -> set[type]:
    targets = {str(merged(path.stem, [conf, ROOT / "conf" / "strategy"])["_target_"]) for path in conf.glob("*.yaml")}
    return {locate(target) for target in targets}


def own_strategies() -> list[type]:
    for module in pkgutil.walk_packages(strategies.__path__, "strategies."):
        importlib.import_module(module.name)
    return [cls for cls in family(Strategy) if cls.__module__.startswith("strategies.")]


def test_every_strategy_has_a_file_in_conf_and_the_other_way_round(tmp_path: Path) -> None:
    """A forgotten file is caught."""
    concrete = {cls for cls in own_strategies() if is_final(cls)}
    assert concrete == registered(ROOT / "conf" / "strategy")
    for path in (ROOT / "conf" / "strategy").glob("*.yaml"):
        shutil.copy(path, tmp_path)
    (tmp_path / "ssp.yaml").unlink()
    assert concrete - registered(tmp_path) == {SSP}


def folders_without_a_package(root: Path) -> set[str]:
    """They would not be installed."""
    folders = {path.parent for name in PACKAGES for path in (root / name).rglob("*.py")}
    return {str(folder.relative_to(root)) for folder in folders if not (folder / "__init__.py").is_file()}


def test_all_packages_are_installed(tmp_path: Path) -> None:
    """A forgotten one is caught."""
    assert folders_without_a_package(ROOT) == set()
    assert sorted(PACKAGES) == sorted(packing.PACKAGES)
    assert sorted([*PACKAGES, "stragglab"]) == PROJECT["tool"]["importlinter"]["root_packages"]
    (tmp_path / "strategies" / "new").mkdir(parents=True)
    for place in ("__init__.py", "new/idea.py"):
        (tmp_path / "strategies" / place).touch()
    assert folders_without_a_package(tmp_path) == {"strategies/new"}


def needed_by(tree: ast.AST, modules: Collection[str]) -> Iterator[str]:
    """Which of these modules a file imports, now or in a function; imports for types alone do not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield from {inner if inner in modules else node.module} & set(modules)
        elif isinstance(node, ast.Import):
            yield from {name.name for name in node.names} & set(modules)
        yield from needed_by(node, modules)


def circle_in(root: Path) -> list[str]:
    """Files below ``runtime`` that import each other in a circle; none: there is no circle."""
    files = (root / "runtime").rglob("*.py")
    sources = {".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file for file in files}
    needs = {name: {*needed_by(ast.parse(file.read_text()), sources)} - {name} for name, file in sources.items()}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_files_of_the_runtime_import_each_other_in_a_circle(tmp_path: Path) -> None:
    """One is found also through a function."""
    assert circle_in(ROOT) == []
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "one.py").write_text("def act():\n    from runtime.two import other\n")
    (tmp_path / "runtime" / "two.py").write_text("if TYPE_CHECKING:\n    from runtime import one\n")
    assert circle_in(tmp_path) == []
    (tmp_path / "runtime" / "two.py").write_text("from runtime import one\n")
    assert set(circle_in(tmp_path)) == {"runtime.one", "runtime.two"}


def test_direct_dependencies_are_pinned_without_cuda() -> None:
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert all("==" in pin and not pin.startswith(("nvidia", "triton")) for pin in pins)
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [
        *PROJECT["project"]["dependencies"],
        *(one for name in ("dev", "ray", "sweeps", "tensorflow") for one in extras[name]),
    ]
    direct = {word.partition(">")[0] for word in wanted} - {
        "stragglab[ml,sweeps,tensorflow]"
    }  # what `make run` need not
    assert direct <= {pin.partition("==")[0] for pin in pins}
