"""How the package is made of the repository: which folders are its parts, and how their files change on the way.

In the repository ``runtime`` is a module of its own, in the package it is ``stragglab.runtime``: so none of our modules
is a top-level module of a user's environment. Imports are rewritten where they stand, by the syntax tree, so that lines
keep their numbers. ``setup.py`` uses this, and so it needs nothing but the standard library.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

NAME = "stragglab"
PACKAGES = ("analysis", "injectors", "predictors", "reading", "runtime", "strategies", "workloads")
"""Folders that are packages."""
LOOSE = ("scripts/cluster", "scripts/fitting", "scripts/gpu", "scripts/measure", "tests/contract", "tests/support")
"""Folders of modules without an ``__init__.py``. Other rooms of ``scripts/`` need the repository."""
ROOTS = frozenset({*PACKAGES, "scripts", "tests"})
SUITE = ("tests.contract.test_strategies", "tests.contract.test_virtual", "tests.contract.test_virtual_allreduce")
"""Tests of a user's strategy; of the tests only these are shipped, with the modules that they import."""
PLUGINS = ("tests.support.long_tests", "tests.support.users_suite")
"""Plugins of pytest that these tests need."""
OF_THE_REPOSITORY = ("scripts.gpu.gpu_session", "scripts.measure.snapshot")
"""Programs that need its tests."""
DATA = [
    f"**/{name}"
    for name in (
        "*.css",
        "*.csv",
        "*.js",
        "*.json",
        "*.npz",
        "*.parquet",
        "*.yaml",
        "about.toml",
        "pages.toml",
        "LICENSE",
        "NOTICE",
    )
]
"""Files that modules read."""
TEMPLATE = "project"
"""The folder of ``stragglab`` that ``new`` copies: files of others, not a part of the package."""
COMMAND = "python run.py"
MODULES = "python -m scripts."
"""How maintainers start programs."""
TARGET = re.compile(rf"(_target_: )(({'|'.join(sorted(ROOTS))})\.)")
COMMENTED = re.compile(rf"{COMMAND}( .*?)(\s+)#")


class Layout(NamedTuple):
    """Packages and where their files are, as ``setuptools.setup`` takes them."""

    packages: list[str]
    package_dir: dict[str, str]
    package_data: dict[str, list[str]]


def in_place(root: Path) -> Layout:
    """The folders as they are: for an editable installation."""
    names = [name for folder in (*PACKAGES, NAME) for name in _packages(root, folder)]
    return Layout(names, {}, {})


def as_package(root: Path) -> Layout:
    """Everything below one name, configurations included."""
    folders = [folder for name in PACKAGES for folder in _packages(root, name)]
    loose = [folder.replace("/", ".") for folder in LOOSE]
    names = [*_packages(root, NAME), *(f"{NAME}.{name}" for name in (*folders, *loose)), f"{NAME}.conf"]
    places = {f"{NAME}.{name}": name.replace(".", "/") for name in (*folders, *loose, "conf")}
    data = {f"{NAME}.{top}": DATA for top in (*PACKAGES, "conf")} | {NAME: [f"{TEMPLATE}/**/*"]}
    return Layout(names, {NAME: NAME, **places}, data)


def is_shipped(module: str, suite: frozenset[str]) -> bool:
    """Whether a module of the loose folders belongs into the package; ``suite``: the tests' modules that do."""
    if module in OF_THE_REPOSITORY:
        return False
    return module in suite if module.startswith("tests.") else True


@functools.cache
def suite(root: Path) -> frozenset[str]:
    """The modules of the contract suite, with all of the tests' modules that they import."""
    found, waiting = set[str](), [*SUITE, *PLUGINS]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            tree = ast.parse((root / f"{module.replace('.', '/')}.py").read_text())
            waiting += [name for name in imported_modules(tree) if name.startswith("tests.")]
    return frozenset(found)


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Names of the modules that are imported anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def for_package(text: str) -> str:
    """A file of Python as it is in the package: imports of ours, and the command that messages name.

    Raises ``ValueError`` for an import that cannot be rewritten: ``import runtime.errors`` binds the name ``runtime``,
    which would be another in the package, so that name must not be used.
    """
    tree = ast.parse(text)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    lines = text.splitlines(keepends=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level and _is_ours(node.module):
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = _insert(line, node.module, node.col_offset + len("from "))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_ours(alias.name):
                    if alias.asname is None and alias.name.partition(".")[0] in used:
                        raise ValueError(f"line {node.lineno}: import {alias.name}: write from ... import ... instead")
                    lines[alias.lineno - 1] = _insert(lines[alias.lineno - 1], alias.name, alias.col_offset)
    return with_program_name("".join(lines))


def for_hydra(text: str) -> str:
    """A file of ``conf/hydra``, whose targets Hydra imports by itself."""
    return TARGET.sub(rf"\1{NAME}.\2", text)


def with_program_name(text: str) -> str:
    """The text with the command that users of the package type; comments behind it stay where they are."""

    def pad(found: re.Match[str]) -> str:
        return f"{NAME}{found[1]}{found[2]}{' ' * (len(COMMAND) - len(NAME))}#"

    return COMMENTED.sub(pad, text).replace(COMMAND, NAME).replace(MODULES, f"python -m {NAME}.scripts.")


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ROOTS


def _insert(line: str, module: str, column: int) -> str:
    """``column``: in bytes of UTF-8, as the syntax tree counts."""
    data = line.encode()
    if not data[column:].startswith(module.encode()):
        raise ValueError(f"{line.strip()}: write it with one space before the module")
    return (data[:column] + f"{NAME}.".encode() + data[column:]).decode()


def _packages(root: Path, folder: str) -> Iterable[str]:
    """A package and those in it, by their dotted names."""
    found = sorted(path.parent for path in (root / folder).rglob("__init__.py") if TEMPLATE not in path.parts)
    return [".".join(path.relative_to(root).parts) for path in found]
