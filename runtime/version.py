"""The version of this software, from ``pyproject.toml``, and the fingerprint of its files."""

from __future__ import annotations

import base64
import functools
import hashlib
import tomllib
from collections.abc import Sequence
from pathlib import Path

from runtime.house import INSTALLED, ROOT

NAME = "stragglab"
PACKAGES = ("analysis", "injectors", "predictors", "reading", "runtime", "strategies", "workloads")
SOURCES = ("*.c", "*.py")
PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


@functools.cache
def own_version(project: Path = PROJECT) -> str:
    """Version of the running files, not of another installed package of that name; ``unknown`` if undetermined."""
    try:
        about = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):
        about = {}
    if about.get("name") == NAME and "version" in about:
        return str(about["version"])
    return installed_version(NAME)


def installed_version(package: str) -> str:
    """Version of a package as installed; ``unknown`` if it is not."""
    import importlib.metadata  # takes longer than all the rest

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def main(_argv: Sequence[str] = ()) -> int:
    """Print our version and Hydra's, whose flags these are; returns the exit code."""
    print(f"Stragglab {own_version()} (Hydra {installed_version('hydra-core')})")
    return 0


def code_sha256(root: Path = ROOT) -> str:
    """SHA-256 of the sources of our packages below ``root``; reading them takes some hundredths of a second."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted(path for pattern in SOURCES for path in (root / package).rglob(pattern)):
            digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def with_project(code: str, project: str) -> str:
    """One fingerprint of our sources and of the user's project (:func:`runtime.config.project.fingerprint`)."""
    return hashlib.sha256(f"{code}{project}".encode()).hexdigest()


def edited_files() -> list[str]:
    """Files of the installed package that are not as they were installed; none in a repository, which git watches."""
    if not INSTALLED:
        return []
    import importlib.metadata

    try:
        files = importlib.metadata.files(NAME) or ()
    except importlib.metadata.PackageNotFoundError:
        return []
    summed = [(Path(str(file.locate())), file.hash, file) for file in files if file.hash is not None]
    return [str(file) for path, said, file in summed if _sum(path, said.mode) != said.value]


def _sum(path: Path, method: str) -> str:
    """As ``RECORD`` has it: URL-safe base64 without padding; empty for a file that is not there."""
    try:
        digest = hashlib.new(method, path.read_bytes()).digest()
    except (OSError, ValueError):
        return ""
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
