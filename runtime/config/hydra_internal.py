"""What Hydra's public interface does not offer: its own flags, its callbacks, and the names of what is built in.

Nothing else of ours looks inside Hydra. Because of this file its version is pinned below 1.4.
"""

from __future__ import annotations

from hydra._internal.callbacks import Callbacks
from hydra._internal.utils import get_args_parser

__all__ = ["BASIC_LAUNCHER", "BASIC_SWEEPER", "Callbacks", "get_args_parser"]

BASIC_LAUNCHER = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"
"""Starts one job after another, in this process."""
BASIC_SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
"""Multiplies out all values; any other decides on values while jobs run."""
