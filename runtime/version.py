"""The version of this software, from ``pyproject.toml``."""

from __future__ import annotations

import importlib.metadata
import tomllib
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
    try:
        return importlib.metadata.version(NAME)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
