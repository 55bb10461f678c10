"""The version of this software, which ``pyproject.toml`` says."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

NAME = "stragglab"
PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def own_version(project: Path = PROJECT) -> str:
    """Of the files that run, whatever else is installed by that name; ``unknown`` if nothing tells."""
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
