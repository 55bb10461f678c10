"""A user's own project: a folder with configurations in ``conf/`` and the packages that these name.

One setting names it: ``project=DIR`` on the command line, or the environment variable. Its ``conf/`` is then searched
after ours, and its packages may be named by a ``_target_``. The variable is what processes that a run starts go by.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from reading.about import read_about
from reading.errors import Unreadable
from runtime.errors import ConfigError, no_directory
from runtime.house import FOLDERS

SETTING = "project"
VARIABLE = "STRAGGLAB_PROJECT"
CONF = "conf"


def adopt(words: Sequence[str]) -> list[str]:
    """The command line without ``project=DIR``, which holds from now on, in child processes, too.

    Raises :class:`ConfigError` for a folder that is no project, whether it is named here or in the environment.
    """
    named = [word for word in words if word.startswith(f"{SETTING}=")]
    if len(named) > 1:
        raise ConfigError(f"{' '.join(named)}: one project at a time")
    text = named[0].partition("=")[2] if named else os.environ.get(VARIABLE, "")
    if named or text:
        label = named[0] if named else f"{VARIABLE}={text}"
        os.environ[VARIABLE] = str(_check(text, label))
        reach()
    return [word for word in words if word not in named]


def folder() -> Path | None:
    """The project of this process; None if there is none."""
    text = os.environ.get(VARIABLE, "")
    return Path(text) if text else None


def conf() -> Path | None:
    """The folder of its configurations."""
    own = folder()
    return None if own is None else own / CONF


def packages() -> tuple[str, ...]:
    """Names of the project's packages, which configurations may name."""
    own = folder()
    return () if own is None else _packages(own)


def reach() -> None:
    """Let the project's packages be imported; raises :class:`ConfigError` if others of these names come first."""
    own = folder()
    if own is None:
        return
    if str(own) not in sys.path:
        sys.path.append(str(own))
    for name in packages():
        found = importlib.util.find_spec(name)
        origin = Path(found.origin) if found is not None and found.origin else None
        if origin is None or not origin.resolve().is_relative_to(own.resolve()):
            raise ConfigError(f"{own / name}: Python takes {origin} for that name; give your package another name")


@functools.cache
def fingerprint() -> str:
    """Name and contents of the project as they were when this process first asked; empty if there is none."""
    own = folder()
    if own is None:
        return ""
    digest = hashlib.sha256()
    for place in (CONF, *packages()):
        for path in sorted((own / place).rglob("*")):
            if path.suffix in (".py", ".yaml"):
                digest.update(f"{path.relative_to(own)}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
    return f"{own.name} {digest.hexdigest()[:12]}"


@functools.cache
def _packages(own: Path) -> tuple[str, ...]:
    """Names of our own folders mean ours in a configuration, so a package of that name is left out."""
    found = sorted(path.parent.name for path in own.glob("*/__init__.py"))
    return tuple(name for name in found if name not in FOLDERS and name.isidentifier())


def _check(text: str, label: str) -> Path:
    own = Path(text).expanduser().absolute() if text else None
    if own is None or not own.is_dir():
        raise ConfigError(f"{label}: {no_directory(own)}; python run.py new DIR makes a project")
    if not (own / CONF).is_dir():
        raise ConfigError(f"{label}: has no directory {CONF}, so it is no project; python run.py new DIR makes one")
    if not _packages(own):
        raise ConfigError(f"{label}: holds no package (a directory with __init__.py) that its {CONF} could name")
    try:
        read_about(own)
    except Unreadable as error:
        raise ConfigError(f"{label}: {error}") from None
    return own
