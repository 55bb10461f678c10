"""``meta.json``: what ran, where, and with which versions; written before the first process starts."""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from runtime.config import project
from runtime.house import INSTALLED, ROOT
from runtime.version import code_sha256, own_version

SCHEMA = 1


def describe_machine() -> dict[str, Any]:
    """Properties of this machine that timings depend on."""
    return {
        "hostname": platform.node(),
        "kernel": platform.release(),
        "cpu": _cpu_model(),
        "num_cores": num_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def num_cores() -> int:
    """Number of cores that this process may use; all of the machine's where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe_versions() -> dict[str, str]:
    """Versions of Stragglab, Python, numpy, the user's project; the framework's is added when it has been imported.

    ``code`` is the fingerprint of the running files, with which it does not matter whether there is a commit.
    """
    own = project.fingerprint()
    return {
        "stragglab": own_version(),
        "commit": _commit(),
        "code": _code(),
        "python": platform.python_version(),
        "numpy": version_of("numpy"),
        **({"project": own} if own else {}),
    }


def started_at() -> str:
    """Wall-clock time as a label; nothing is computed from it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


@functools.cache
def version_of(package: str) -> str:
    """The installed version of a package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@functools.cache
def _code() -> str:
    return code_sha256()


@functools.cache
def _commit() -> str:
    """Return the commit of the working tree when this process's first record began; installed, of the packed one."""
    if INSTALLED:  # a repository around the environment is not ours
        return (ROOT / "COMMIT").read_text(encoding="utf-8").strip() or "unknown"
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=2,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
