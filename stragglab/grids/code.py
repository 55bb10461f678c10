"""Hash the code that a run executes: its result counts until that code changes.

Python counts as a syntax tree without docstrings, so neither comments nor layout change the hash; other files count
byte by byte.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from runtime.house import ROOT, house_name

CODE = ("conf", "strategies", "injectors", "predictors", "reading", "runtime", "workloads")
"""Folders with all that a job reads."""
MADE = (".pyc", ".so")
"""Endings of files that are made of the others."""
EXPERIMENTS = Path("conf", "experiment")
START = "runtime.run.launch"
"""The module that starts every run."""
OTHERS = {"live": Path("runtime", "virtual"), "virtual": Path("runtime", "live")}
"""The folder that a run does not execute, by the name of its own runtime."""
TARGET = "_target_"
DOTTED = re.compile(r"\w+(\.\w+)+")


def sha256_of_all(root: Path = ROOT) -> str:
    """Return the hash of all files that a job may read: Python and C, configurations, fitted and recorded files.

    Hidden files do not count: they are caches of tools.
    """
    found = (path for folder in CODE for path in (root / folder).rglob("*") if path.is_file())
    names = (path.relative_to(root) for path in found if path.suffix not in MADE)
    kept = {name for name in names if EXPERIMENTS not in name.parents and not _is_hidden(name)}
    return sha256_of(kept, root)


def sha256_of_run(config: Mapping[str, Any], runtime: str, root: Path = ROOT) -> str:
    """Return the hash of what a run with this composed configuration executes on ``runtime`` (``live``, ``virtual``).

    It covers the classes that the configuration names, what starts a run, all that these import, and the C code next
    to it. The other runtime, other strategies and the analysis do not count.
    """
    return sha256_of(files_of((START, *modules_in(config)), runtime, root), root)


def files_of(start: Iterable[str], runtime: str, root: Path = ROOT) -> set[Path]:
    """Return the files, relative to ``root``, that modules execute on ``runtime``: their own and all they import."""
    found: set[Path] = set()
    waiting = [name for module in start for name in files_of_module(module, root)]
    while waiting:
        name = waiting.pop()
        if name not in found and OTHERS[runtime] not in name.parents:
            found.add(name)
            path = root / name
            imported = _imports(path, path.stat().st_mtime_ns)
            waiting += [one for module in imported for one in files_of_module(module, root)]
    return found | {
        name
        for folder in {name.parent for name in found}
        for path in (root / folder).iterdir()
        if path.suffix in (".c", ".h") and OTHERS[runtime] not in (name := path.relative_to(root)).parents
    }


def modules_in(config: object) -> Iterator[str]:
    """Find the dotted names of classes in a configuration."""
    for key, value in config.items() if isinstance(config, Mapping) else ():
        if key == TARGET:
            yield str(value)
        else:
            yield from modules_in(value)
    for value in config if isinstance(config, list) else ():
        yield from modules_in(value)


def files_of_module(dotted: str, root: Path = ROOT) -> list[Path]:
    """Return the files, relative to ``root``, that the import of a module, or of a name in one, executes."""
    parts, found = house_name(dotted).split("."), []
    if parts[0] not in CODE:
        return []
    for number in range(1, len(parts) + 1):
        place = Path(*parts[:number])
        found += [name for name in (place / "__init__.py", place.with_suffix(".py")) if (root / name).is_file()]
    return found


def sha256_of(names: Iterable[Path], root: Path = ROOT) -> str:
    """Return the hash of the names and contents of files below ``root``."""
    found = hashlib.sha256()
    for name in sorted(names):
        path = root / name
        found.update(f"{name.as_posix()} {_sha256_of_file(path, path.stat().st_mtime_ns)}\n".encode())
    return found.hexdigest()


@cache
def _sha256_of_file(path: Path, changed_ns: int) -> str:
    """Hash a file as it was when it changed last; ``changed_ns`` distinguishes its versions."""
    content = path.read_bytes()
    if path.suffix == ".py":
        content = ast.dump(bare(ast.parse(content))).encode()
    return hashlib.sha256(content).hexdigest()


def bare(tree: ast.Module) -> ast.Module:
    """Return the tree without docstrings and other texts that stand alone as statements (it is changed in place)."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                setattr(node, name, [one for one in body if not _is_text(one)])
    return tree


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_hidden(name: Path) -> bool:
    return any(part.startswith(".") for part in name.parts)


@cache
def _imports(path: Path, changed_ns: int) -> tuple[str, ...]:
    """Dotted names that a file imports, also within functions, but not for type checkers alone.

    Texts count, too: some name a module that another process executes, or that is compiled.
    """
    if path.suffix != ".py":
        return ()
    found: list[str] = []
    waiting: list[ast.AST] = [ast.parse(path.read_bytes())]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                waiting += node.orelse
                continue
            case ast.Import():
                found += [one.name for one in node.names]
            case ast.ImportFrom(module=str(module), level=0):
                found += [f"{module}.{one.name}" for one in node.names]
            case ast.Constant(value=str(text)) if DOTTED.fullmatch(text):
                found.append(text)
        waiting += ast.iter_child_nodes(node)
    return tuple(found)
