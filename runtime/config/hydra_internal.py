"""Parts of Hydra outside its public interface: its flags, its callbacks, and names of built-in classes.

No other module uses Hydra's internals. Because of this file its version is pinned below 1.4.
"""

from __future__ import annotations

from hydra._internal.callbacks import Callbacks
from hydra._internal.utils import get_args_parser

__all__ = ["BASIC_LAUNCHER", "BASIC_SWEEPER", "Callbacks", "get_args_parser"]

BASIC_LAUNCHER = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"
"""Hydra's launcher that starts one job after another, in this process."""
BASIC_SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
"""Hydra's sweeper over all combinations; any other chooses values while jobs run."""
