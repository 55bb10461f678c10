"""The command ``stragglab``: ``run.py``, wherever it is."""

from __future__ import annotations

import runpy
import sys

from runtime.house import INSTALLED, ROOT


def main() -> None:
    """Run the program; it ends the process with its exit code."""
    if not INSTALLED:  # as ``python run.py`` does
        sys.path.insert(0, str(ROOT))
    runpy.run_path(str(ROOT / "run.py"), run_name="__main__")
