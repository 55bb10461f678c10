"""The control groups in which the tasks of a live run are."""

from __future__ import annotations

from pathlib import Path

from runtime.live.machines.cgroup_files import V1, V2, Kernel
from runtime.live.machines.cgroups import find


def group_of(pid: int) -> Path:
    """The group of a process, with the files of the processor."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    (path,) = {"stragglab-" + line.partition("/stragglab-")[2] for line in lines if "/stragglab-" in line}
    return find("cpu").base / path


def quota_of(pid: int) -> float | None:
    """Cores that the kernel gives the group of a process now; None: no limit."""
    files = V1 if find("cpu").version == 1 else V2
    return files(group_of(pid), Kernel()).quota().cores
