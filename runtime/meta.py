"""``meta.json``: what ran, where, and with which versions; written before the first process starts."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

SCHEMA = 1


def describe_machine() -> dict[str, Any]:
    """Facts that timings depend on."""
    return {
        "hostname": platform.node(),
        "kernel": platform.release(),
        "cpu": _cpu_model(),
        "num_cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def describe_versions() -> dict[str, str]:
    """Ours, Python's and numpy's; those of the framework follow when it has been imported."""
    return {
        "stragglab": _version("stragglab"),
        "commit": _commit(),
        "python": platform.python_version(),
        "numpy": _version("numpy"),
    }


def started_at() -> str:
    """Wall-clock time as a label; nothing is computed from it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=2,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()
