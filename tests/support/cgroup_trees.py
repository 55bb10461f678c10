"""Fake trees of control groups, and a kernel for them that has the real one's rules about what it refuses."""

from __future__ import annotations

import errno
import math
from pathlib import Path

import pytest

from runtime.live.machines.cgroup_files import MAX_PERIOD_US, MIN_QUOTA_US, V1, V2, Kernel
from runtime.live.machines.cgroups import CgroupUnavailable, Hierarchy, find

V1_FILES = {
    "cgroup.procs": "",
    "cpu.cfs_quota_us": "-1",
    "cpu.cfs_period_us": "100000",
    "cpu.shares": "1024",
    "cpu.stat": "nr_periods 40\nnr_throttled 30\nthrottled_time 1500000000\n",
    "memory.limit_in_bytes": str(2**63 - 4096),
    "memory.memsw.limit_in_bytes": str(2**63 - 4096),
}
V2_FILES = {"cgroup.procs": "", "cgroup.subtree_control": "", "cgroup.type": "domain"}
V2_OF = {
    "cpu": {
        "cpu.max": "max 100000",
        "cpu.weight": "100",
        "cpu.stat": "usage_usec 2500000\nnr_periods 40\nnr_throttled 30\nthrottled_usec 1500000\n",
    },
    "memory": {"memory.max": "max", "memory.swap.max": "max"},
}


UNLIMITED = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")


class Fake(Kernel):
    """Refuses what Linux refuses. ``writes``: all that was written, by the name of the file."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, str]] = []
        self.locked: set[Path] = set()
        self.deaf: set[str] = set()
        """Files that take everything and keep what they have."""

    def write(self, path: Path, text: str) -> None:
        if not path.exists():
            raise OSError(errno.ENOENT, "No such file or directory")
        before = path.read_text()
        self.writes.append((path.name, text))
        if path.name in self.deaf:
            return
        if path.name == "cgroup.subtree_control":
            text = self._enable(path, before, text)
        if path.name in UNLIMITED and text == "-1":
            text = V1_FILES[path.name]
        path.write_text(f"{text}\n")
        if not self._lawful(path):
            path.write_text(before)
            raise OSError(errno.EINVAL, "Invalid argument")

    def make(self, path: Path) -> None:
        super().make(path)
        if (control := path.parent / "cgroup.subtree_control").exists():
            given = control.read_text().split()
            fill(path, {**V2_FILES, "cgroup.controllers": " ".join(given)}, *(V2_OF[name] for name in given))
        else:
            fill(path, V1_FILES)

    def remove(self, path: Path) -> None:
        if (path / "cgroup.procs").read_text().strip() or any(entry.is_dir() for entry in path.iterdir()):
            raise OSError(errno.EBUSY, "Device or resource busy")
        for entry in path.iterdir():
            entry.unlink()
        super().remove(path)

    def writable(self, path: Path) -> bool:
        return path not in self.locked

    def _enable(self, path: Path, before: str, text: str) -> str:
        folder, name = path.parent, text.removeprefix("+")
        if name not in (folder / "cgroup.controllers").read_text().split():
            raise OSError(errno.ENOENT, "No such file or directory")
        if (folder / "cgroup.type").exists() and (folder / "cgroup.procs").read_text().strip():
            raise OSError(errno.EBUSY, "Device or resource busy")
        for below in folder.iterdir():
            if below.is_dir():
                given = (below / "cgroup.controllers").read_text()
                fill(below, V2_OF[name], {"cgroup.controllers": f"{given} {name}"})
        return f"{before.strip()} {name}"

    def _lawful(self, path: Path) -> bool:
        if path.name == "cpu.max":
            quota_us, period_us = path.read_text().split()
            return in_range(-1 if quota_us == "max" else int(quota_us), int(period_us))
        if path.name in ("cpu.weight", "cpu.shares"):
            least, most = (1, 10_000) if path.name == "cpu.weight" else (2, 2**18)
            return least <= int(path.read_text()) <= most
        if path.name.startswith("cpu.cfs"):
            top = path.parent
            while (top.parent / "cpu.cfs_quota_us").exists():
                top = top.parent
            return fits(top, math.inf)
        if path.name.startswith("memory.") and (path.parent / "memory.memsw.limit_in_bytes").exists():
            alone, both = (int((path.parent / name).read_text()) for name in UNLIMITED)
            return alone <= both
        return True


def in_range(quota_us: int, period_us: int) -> bool:
    return (quota_us == -1 or quota_us >= MIN_QUOTA_US) and MIN_QUOTA_US <= period_us <= MAX_PERIOD_US


def fits(group: Path, above: float) -> bool:
    """Of version 1: no group may have a larger share than the one above it (``tg_cfs_schedulable_down``)."""
    quota_us, period_us = (int((group / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
    own = above if quota_us < 0 else (quota_us << 20) // period_us
    below = [entry for entry in group.iterdir() if entry.is_dir()]
    return in_range(quota_us, period_us) and own <= above and all(fits(one, own) for one in below)


def fill(folder: Path, *contents: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for files in contents:
        for name, text in files.items():
            (folder / name).write_text(text)
    return folder


class Machine:
    """A tree below ``root`` with what the kernel would say about it."""

    def __init__(self, root: Path) -> None:
        self.root, self.kernel = root, Fake()
        self.mounts = "proc /proc proc rw 0 0\n"
        self.own = ""

    def v1(self, name: str = "cpu", controllers: str = "cpu", position: str = "/", options: str = "rw") -> Path:
        top = self._mounted("cgroup", name, f"{options},relatime,{controllers}")
        self.own += f"3:{controllers}:{position}\n"
        return fill(top / position.lstrip("/"), V1_FILES)

    def v2(self, name: str = "", controllers: str = "cpu memory", position: str = "/", options: str = "rw") -> Path:
        top = self._mounted("cgroup2", name, f"{options},nsdelegate")
        self.own += f"0::{position}\n"
        folder = top
        fill(top, {**V2_FILES, "cgroup.controllers": controllers})
        (top / "cgroup.type").unlink()
        for part in Path(position).parts[1:]:
            (folder / "cgroup.subtree_control").write_text(controllers)
            folder = fill(folder / part, {**V2_FILES, "cgroup.controllers": controllers})
        (folder / "cgroup.procs").write_text("4711\n")
        return folder

    def _mounted(self, kind: str, name: str, options: str) -> Path:
        where = f"/sys/fs/cgroup/{name}".rstrip("/")
        self.mounts += f"cgroup {where} {kind} {options} 0 0\n"
        return fill(self.root / where.lstrip("/"))

    def find(self, kind: str = "cpu") -> Hierarchy:
        return find(kind, self.mounts, self.own, self.root, self.kernel)  # type: ignore[arg-type]

    def refusal(self, kind: str = "cpu") -> CgroupUnavailable:
        with pytest.raises(CgroupUnavailable) as caught:
            self.find(kind)
        assert "\n" not in str(caught.value)
        assert str(caught.value) == f"{caught.value.reason}; {caught.value.cure}"
        return caught.value


both = pytest.mark.parametrize("build", [Machine.v1, Machine.v2], ids=["v1", "v2"])
"""On a machine of either version."""


def effective(path: Path) -> float:
    """What the fake kernel's files mean for a group: the least of all from here upwards."""
    least = math.inf
    while (version_2 := (path / "cpu.max").exists()) or (path / "cpu.cfs_quota_us").exists():
        files = V2(path, Kernel()) if version_2 else V1(path, Kernel())
        least = min(least, files.quota().cores or math.inf)
        path = path.parent
    return least
