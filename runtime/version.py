"""The version of this software, from ``pyproject.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

NAME = "stragglab"
PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def own_version(project: Path = PROJECT) -> str:
    """Version of the running files, whatever else is installed by that name; ``unknown`` if undetermined."""
    try:
        about = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):
        about = {}
    if about.get("name") == NAME and "version" in about:
        return str(about["version"])
    return installed_version(NAME)


def installed_version(package: str) -> str:
    """Version of a package as installed; ``unknown`` if it is not."""
    import importlib.metadata  # takes longer than all that is done without it

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def main(_argv: Sequence[str] = ()) -> int:
    """Print the version, and that of Hydra, whose flags these are; returns the exit code."""
    print(f"Stragglab {own_version()} (Hydra {installed_version('hydra-core')})")
    return 0
