"""How programs of ours are started: from this repository, in whatever directory the user is.

``python -m`` alone would look for our packages in that directory first, where a user may have an ``analysis``, too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def program(module: str, *words: str) -> list[str]:
    """The command line of one of our modules; it goes with :func:`surroundings`."""
    return [sys.executable, "-P", "-m", module, *words]


def surroundings() -> dict[str, str]:
    """The environment, in which our packages are found before all others."""
    others = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{others}" if others else str(ROOT)}
