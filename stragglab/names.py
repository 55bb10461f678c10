"""In the repository, where our folders are modules of their own: their names as parts of ``stragglab``, too.

A user's strategy imports ``stragglab.strategies.parts.gates`` wherever it runs. Installed, that is a module like any
other; in the repository this finder answers with ``strategies.parts.gates``, the very same module.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

from runtime.house import FOLDERS, INSTALLED, PACKAGE

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:  # which nothing else needs of what starts with every program
    Loader = MetaPathFinder = object


class _Same(Loader):
    """Loads a module of ours by its own name; it keeps its own name and spec."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self.module = import_module(spec.name.removeprefix(PACKAGE))
        self.spec = self.module.__spec__
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


class _Folders(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        own = fullname.removeprefix(PACKAGE)
        if own == fullname or own.partition(".")[0] not in FOLDERS:
            return None
        return ModuleSpec(fullname, _Same())


def reach_folders() -> None:
    """Make our folders importable as parts of ``stragglab``."""
    if not INSTALLED and not any(isinstance(finder, _Folders) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Folders())
