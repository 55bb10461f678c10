"""An agent's facts about its machine when it joins: its size, its versions, its code, its doctor's findings."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

import msgspec

from runtime.backends.devices.found import num_shown
from runtime.config import project
from runtime.house import ROOT
from runtime.live.machines.doctor import PROBED, missing
from runtime.version import code_sha256, own_version, with_project

DISTRIBUTIONS = ("msgspec", "numpy", "tensorflow", "torch")
GIT_DEADLINE_S = 5.0
MODEL = re.compile(r"^Model:(.*)$", re.MULTILINE)


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """The running files: equal ``sha256`` means equal code, in any state of version control."""

    sha256: str
    commit: str = ""
    """Empty: no working tree, or no git."""
    dirty: bool = False

    @property
    def words(self) -> str:
        """Return its name in messages: its commit, or the start of its fingerprint."""
        known = f"commit {self.commit[:12]}" if self.commit else f"files {self.sha256[:12]}"
        return f"{known} with changes" if self.dirty else known


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, as its agent sees it."""

    hostname: str
    address: str
    """At which tasks on other machines reach its tasks."""
    cores: int
    memory_bytes: int
    gpus: tuple[str, ...] = ()
    shown_gpus: int | None = None
    """How many of them ``CUDA_VISIBLE_DEVICES`` shows, if it says so; None: all."""
    capabilities: dict[str, str] = {}
    """By name: empty where it works, else why not."""
    versions: dict[str, str] = {}
    code: Code

    @property
    def name(self) -> str:
        """For messages: ``10.0.0.2 (alpha)``."""
        return f"{self.address} ({self.hostname})"


def look_here(address: str, *, capabilities: bool = True) -> Facts:
    """The facts of this machine; ``capabilities``: try them, which takes a second."""
    lacks = {name: missing(name) for name in PROBED} if capabilities else {}
    return Facts(
        hostname=platform.node(),
        address=address,
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        gpus=gpus(),
        shown_gpus=num_shown(),
        capabilities={name: "" if lack is None else lack.reason for name, lack in lacks.items()},
        versions=versions(),
        code=code_below(ROOT),
    )


def versions() -> dict[str, str]:
    """Versions of Stragglab, Python and the libraries that compute; the missing are left out."""
    found = {"stragglab": own_version(), "python": ".".join(platform.python_version_tuple()[:2])}
    for name in DISTRIBUTIONS:
        for distribution in (name, f"{name}-cpu"):
            try:
                found.setdefault(name, importlib.metadata.version(distribution).partition("+")[0])
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


def gpus(drivers: Path = Path("/proc/driver/nvidia/gpus")) -> tuple[str, ...]:
    """Models of the NVIDIA GPUs that the kernel's driver shows."""
    found = []
    for about in sorted(drivers.glob("*/information")):
        model = MODEL.search(about.read_text())
        found.append(model[1].strip() if model else "unknown")
    return tuple(found)


def fingerprint_below(root: Path) -> str:
    """SHA-256 of the sources of our packages below ``root``, and of the user's project."""
    return with_project(code_sha256(root), project.fingerprint())


def code_below(root: Path) -> Code:
    """The fingerprint of the files below ``root``, and their state in git."""
    commit = _git(root, "rev-parse", "HEAD")
    dirty = bool(commit) and bool(_git(root, "status", "--porcelain", "--untracked-files=no"))
    return Code(sha256=fingerprint_below(root), commit=commit, dirty=dirty)


def _git(root: Path, *words: str) -> str:
    """Return git's answer; empty where there is no working tree or no git."""
    if not (root / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            ["git", *words], cwd=root, capture_output=True, text=True, timeout=GIT_DEADLINE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
