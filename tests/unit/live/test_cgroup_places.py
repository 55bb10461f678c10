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


def test_version_1_is_found_at_our_own_position(machine: Machine) -> None:
    base = machine.v1("cpu,cpuacct", "cpu,cpuacct", "/user/1000")
    found = machine.find()
    assert (found.version, found.base) == (1, base)


def test_in_a_container_the_mount_begins_at_our_own_group(machine: Machine) -> None:
    base = machine.v1()
    machine.own = "3:cpu:/docker/4b1d\n"
    assert machine.find().base == base
    machine.own = "3:cpu:/../..\n"
    assert machine.find().base == base


def test_version_2_at_the_root(machine: Machine) -> None:
    base = machine.v2()
    found = machine.find()
    assert (found.version, found.base) == (2, base)


def test_in_version_2_groups_are_made_beside_the_one_that_holds_this_process(machine: Machine) -> None:
    scope = machine.v2(position="/user.slice/app.slice/run-1.scope")
    assert machine.find().base == scope.parent


def test_both_kinds_are_found_at_the_same_place(machine: Machine) -> None:
    """A process is in one group of version 2: a nearer place for memory alone would take the quota away."""
    scope = machine.v2(position="/user.slice/app.slice/run-1.scope")
    (scope.parent / "cgroup.controllers").write_text("memory")
    assert machine.find("cpu").base == machine.find("memory").base == scope.parent.parent


def test_a_hybrid_machine_has_the_controller_in_one_of_them(machine: Machine) -> None:
    machine.v2("unified", controllers="hugetlb")
    base = machine.v1()
    assert (machine.find().version, machine.find().base) == (1, base)


def test_a_hybrid_machine_where_version_2_offers_it(machine: Machine) -> None:
    base = machine.v2("unified")
    machine.v1("memory", "memory")
    assert (machine.find().version, machine.find().base) == (2, base)


def test_a_mount_with_a_blank_in_its_name(machine: Machine) -> None:
    base = fill(machine.root / "my groups", V1_FILES)
    machine.mounts += "cgroup /my\\040groups cgroup rw,cpu 0 0\n"
    assert machine.find().base == base


def test_no_control_groups(machine: Machine) -> None:
    refusal = machine.refusal()
    assert "mounted" in refusal.reason
    assert "mount -t cgroup2" in refusal.cure


def test_the_controller_is_missing(machine: Machine) -> None:
    machine.v2("unified", controllers="memory")
    machine.v1("memory", "memory")
    assert "cpu is not offered" in machine.refusal().reason


@pytest.mark.parametrize("build", [lambda m: m.v1(options="ro"), lambda m: m.v2(options="ro")], ids=["v1", "v2"])
def test_read_only(machine: Machine, build: Build) -> None:
    build(machine)
    refusal = machine.refusal()
    assert "read-only" in refusal.reason
    assert "read-write" in refusal.cure


def test_no_permission_in_version_1(machine: Machine) -> None:
    machine.kernel.locked = {machine.v1()}
    refusal = machine.refusal()
    assert "no permission" in refusal.reason
    assert refusal.cure == "run as root"


def test_no_permission_in_version_2(machine: Machine) -> None:
    scope = machine.v2(position="/user.slice/session-3.scope")
    machine.kernel.locked = {scope, *scope.parents}
    refusal = machine.refusal()
    assert "no permission" in refusal.reason
    assert "systemd-run" in refusal.cure


def test_a_delegated_place_is_used_where_all_above_it_is_locked(machine: Machine) -> None:
    scope = machine.v2(position="/user.slice/app.slice/run-1.scope")
    machine.kernel.locked = set(scope.parents) - {scope.parent}
    assert machine.find().base == scope.parent


def test_processes_in_the_way(machine: Machine) -> None:
    """The root of a container is not the root of the machine."""
    fill(machine.v2(), {"cgroup.type": "domain"})
    assert "in the way" in machine.refusal().reason


def test_one_that_works_is_preferred_to_one_that_does_not(machine: Machine) -> None:
    machine.v1("a", options="ro")
    base = machine.v1("b")
    assert machine.find().base == base


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
