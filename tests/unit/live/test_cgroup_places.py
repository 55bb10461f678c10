"""Where control groups can be made, on fake trees; and what is said where they cannot."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.live.machines.cgroups import CgroupUnavailable
from tests.support.cgroup_trees import V1_FILES, Machine, both, fill

Build = Callable[[Machine], Path]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# ---- where ----------------------------------------------------------------------------------------------------------


SCOPE = "/user.slice/app.slice/run-1.scope"


def in_a_container(machine: Machine, own: str) -> Path:
    """Its mount begins at its own group."""
    base = machine.v1()
    machine.own = f"3:cpu:{own}\n"
    return base


def with_a_nearer_place_for_memory(machine: Machine) -> Path:
    """A process is in one group of version 2: a nearer place for memory alone would take the quota away."""
    scope = machine.v2(position=SCOPE)
    (scope.parent / "cgroup.controllers").write_text("memory")
    return scope.parent.parent


def with_a_blank_in_its_name(machine: Machine) -> Path:
    machine.mounts += "cgroup /my\\040groups cgroup rw,cpu 0 0\n"
    return fill(machine.root / "my groups", V1_FILES)


def delegated(machine: Machine) -> Path:
    scope = machine.v2(position=SCOPE)
    machine.kernel.locked = set(scope.parents) - {scope.parent}
    return scope.parent


PLACES: dict[str, tuple[int, Build]] = {
    "at our own position": (1, lambda m: m.v1("cpu,cpuacct", "cpu,cpuacct", "/user/1000")),
    "in a container": (1, lambda m: in_a_container(m, "/docker/4b1d")),
    "in a container below": (1, lambda m: in_a_container(m, "/../..")),
    "at the root": (2, lambda m: m.v2()),
    "beside the group that holds this process": (2, lambda m: m.v2(position=SCOPE).parent),
    "both kinds at the same place": (2, with_a_nearer_place_for_memory),
    "hybrid, in version 1": (1, lambda m: [m.v2("unified", controllers="hugetlb"), m.v1()][1]),
    "hybrid, in version 2": (2, lambda m: [m.v2("unified"), m.v1("memory", "memory")][0]),
    "a mount with a blank": (1, with_a_blank_in_its_name),
    "delegated, where all above is locked": (2, delegated),
    "one that works, next to one that does not": (1, lambda m: [m.v1("a", options="ro"), m.v1("b")][1]),
}


@pytest.mark.parametrize("case", PLACES)
def test_where_groups_are_made(machine: Machine, case: str) -> None:
    version, build = PLACES[case]
    base = build(machine)
    found = machine.find()
    assert (found.version, found.base) == (version, base)
    if case == "both kinds at the same place":
        assert machine.find("memory").base == base


def locked(machine: Machine, scope: Path) -> None:
    machine.kernel.locked = {scope, *(scope.parents if scope.name.endswith("scope") else ())}


NOWHERE: dict[str, tuple[Callable[[Machine], object], str, str]] = {
    "no control groups": (lambda m: None, "mounted", "mount -t cgroup2"),
    "no controller": (
        lambda m: [m.v2("unified", controllers="memory"), m.v1("memory", "memory")],
        "cpu is not offered",
        "",
    ),
    "read-only, version 1": (lambda m: m.v1(options="ro"), "read-only", "read-write"),
    "read-only, version 2": (lambda m: m.v2(options="ro"), "read-only", "read-write"),
    "locked, version 1": (lambda m: locked(m, m.v1()), "no permission", "run as root"),
    "locked, version 2": (
        lambda m: locked(m, m.v2(position="/user.slice/session-3.scope")),
        "no permission",
        "systemd-run",
    ),
    "processes in the way": (lambda m: fill(m.v2(), {"cgroup.type": "domain"}), "in the way", ""),
}
"""The root of a container, where processes are in the way, is not the root of the machine."""


@pytest.mark.parametrize("case", NOWHERE)
def test_where_none_can_be_made_it_says_why(machine: Machine, case: str) -> None:
    build, reason, cure = NOWHERE[case]
    build(machine)
    refusal = machine.refusal()
    assert reason in refusal.reason
    assert cure in refusal.cure


# ---- trying ---------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("kind", ["cpu", "memory"])
def test_a_probe_tries_and_leaves_nothing(machine: Machine, build: Build, kind: str) -> None:
    base = build(machine)
    if machine.mounts.count(" cgroup "):
        base = machine.v1("memory", "memory") if kind == "memory" else base
    machine.find(kind).probe()
    assert any(name.startswith(kind) for name, _ in machine.kernel.writes)
    assert not [entry for entry in base.iterdir() if entry.is_dir()]


@both
def test_a_kernel_that_keeps_no_quotas_is_found_out(machine: Machine, build: Build) -> None:
    base = build(machine)
    machine.kernel.deaf = {"cpu.max", "cpu.cfs_quota_us"}
    with pytest.raises(CgroupUnavailable) as caught:
        machine.find().probe()
    assert "enforces unlimited cores" in caught.value.reason
    assert caught.value.cure == "use one that keeps CPU quotas"
    assert not [entry for entry in base.iterdir() if entry.is_dir()]


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.EACCES, "run as root"), (errno.EROFS, "read-only"), (errno.EBUSY, "in use"), (errno.ENOSPC, "space")],
)
def test_what_the_kernel_says_when_tried_is_told_in_words(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    machine.v1()

    def refuse(_: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(machine.kernel, "make", refuse)
    with pytest.raises(CgroupUnavailable, match=words):
        machine.find().probe()


def test_a_kernel_without_quotas(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.v1()
    monkeypatch.delitem(V1_FILES, "cpu.cfs_quota_us")
    with pytest.raises(CgroupUnavailable, match="CONFIG_CFS_BANDWIDTH"):
        machine.find().probe()
