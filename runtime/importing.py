"""Imports of large libraries, which stay until a program ends."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import without looking for garbage, and look at nothing that is there afterwards ever again.

    PyTorch, pandas and Matplotlib make hundreds of thousands of objects, none of which is garbage. Python would go
    through all of them again and again while they come and whenever the program makes some of its own: a third of the
    time of a short run. A child that is forked later shares their pages with its parent as long as nobody looks there.
    """
    was_on, before = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > before:
            gc.freeze()
        if was_on:
            gc.enable()


@contextmanager
def without(*optional: str) -> Iterator[None]:
    """Import as if these optional libraries of others were not installed, unless they are there already.

    OmegaConf looks whether every value is one of attrs' classes, of which no configuration has any: a tenth of the time
    of a command line that is refused.
    """
    absent = [name for name in optional if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
