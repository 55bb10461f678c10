"""Where our own modules are: folders of the repository, or parts of the package ``stragglab`` where that is installed.

The build (``scripts/packaging/packing.py``) moves the folders into the package and rewrites their imports. Settings
and records use the repository's names everywhere, so that both can be exchanged:
``strategies.basic.bsp.BSP`` is imported from ``stragglab.strategies.basic.bsp`` where the package is installed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGE = "stragglab."
FOLDERS = ("analysis", "injectors", "predictors", "reading", "runtime", "scripts", "strategies", "tests", "workloads")
PREFIX = __name__.removesuffix("runtime.house")
"""The prefix of our modules' names: empty in the repository."""
INSTALLED = bool(PREFIX)
ROOT = Path(__file__).resolve().parents[1]
"""The folder with ``conf/``, ``run.py`` and our modules."""
NAME = "stragglab" if INSTALLED else "run.py"
"""Name of the program in messages."""


def command() -> str:
    """How people start this program from the working directory."""
    return "python run.py" if INSTALLED or Path.cwd() == ROOT else f"python {ROOT / 'run.py'}"


def module_name(name: str) -> str:
    """The importable name of one of our modules; other names are returned as they are."""
    return PREFIX + name if name.partition(".")[0] in FOLDERS else name


def house_name(name: str) -> str:
    """The name of one of our modules or its members, as in settings; other names are returned as they are."""
    own = name.removeprefix(PACKAGE)
    return own if own.partition(".")[0] in FOLDERS else name


def run_py(*words: str) -> list[str]:
    """The command line of ``run.py`` with these arguments; installed, its folder stays off the path of modules."""
    return [sys.executable, *(["-P"] if INSTALLED else []), str(ROOT / "run.py"), *words]


def program(module: str, *words: str) -> list[str]:
    """The command line of one of our modules, for any working directory; use it with :func:`surroundings`.

    ``python -m`` alone would search the working directory first, where a user may have a package ``analysis``, too.
    """
    return [sys.executable, "-P", "-m", module_name(module), *words]


def surroundings() -> dict[str, str]:
    """The environment, with the repository before all others on the path; the installed package is found anyway."""
    if INSTALLED:
        return dict(os.environ)
    others = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{others}" if others else str(ROOT)}
