"""Compiled twins of Python modules: used where they were built (``setup.py``), never needed."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

SWITCH = "STRAGGLAB_NATIVE"
"""Environment variable: 0 uses the Python twins, 1 refuses to go on without the compiled ones."""


def native(module: str) -> ModuleType | None:
    """The compiled module of this name; None if it was not built, or is switched off.

    Raises:
        ImportError: if it was not built and is required.
    """
    wish = os.environ.get(SWITCH, "")
    if wish == "0":
        return None
    try:
        return importlib.import_module(module)
    except ImportError:
        if wish == "1":
            raise
        return None
