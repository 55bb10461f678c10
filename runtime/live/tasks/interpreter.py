"""Starts our own programs from this repository, whatever the working directory.

``python -m`` alone would search the working directory first, where a user may have a package ``analysis``, too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def program(module: str, *words: str) -> list[str]:
    """The command line of one of our modules; use it with :func:`surroundings`."""
    return [sys.executable, "-P", "-m", module, *words]


def surroundings() -> dict[str, str]:
    """The environment, with our packages before all others on the path."""
    others = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{others}" if others else str(ROOT)}
