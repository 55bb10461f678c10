"""Groups of a run on fake trees: quotas, memory, statistics, what is refused."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.live.machines.cgroup_files import MIN_CORES, Quota, Throttled, quota_of
from runtime.live.machines.cgroups import Cgroup, CgroupUnavailable, QuotaRefused, counting_apart, run_group
from tests.support.cgroup_trees import V1_FILES, Machine, both, effective, fill, in_range
from tests.support.long_tests import long_after

RUN_ID = "0123456789abcdef"
NAME = f"stragglab-{RUN_ID}"
Build = Callable[[Machine], Path]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def group(machine: Machine) -> Cgroup:
    machine.v1()
    made = machine.find().create(RUN_ID)
    machine.kernel.writes.clear()
    return made


def test_every_directory_is_entrusted_before_it_is_made_and_when_it_is_there(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu, memory = machine.v1(), machine.v1("memory", "memory")
    monkeypatch.setattr("runtime.live.machines.cgroups.find", machine.find)
    heard: list[tuple[Path, bool]] = []
    made = run_group(RUN_ID, memory=True, register=lambda path: heard.append((path, path.is_dir())))
    assert made.paths == [cpu / NAME, memory / NAME]
    assert heard == [(path, there) for path in made.paths for there in (False, True)]


def test_a_run_that_cannot_have_one_of_its_groups_has_none(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, memory = machine.v1(), machine.v1("memory", "memory")
    monkeypatch.setattr("runtime.live.machines.cgroups.find", machine.find)

    def register(path: Path) -> None:
        if path.parent == memory:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(CgroupUnavailable, match=r"cannot make .*memory"):
        run_group(RUN_ID, memory=True, register=register)
    assert not (cpu / NAME).exists()


def test_in_version_2_one_directory_serves_both_kinds(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    base = machine.v2()
    monkeypatch.setattr("runtime.live.machines.cgroups.find", machine.find)
    group = run_group(RUN_ID, memory=True).create("host-0").create("worker-0")
    assert group.paths == [base / NAME / "host-0" / "worker-0"]
    assert group.process_files == (str(group.path / "cgroup.procs"),)
    group.set_cores(0.5)
    group.set_memory_bytes(2**26)
    assert (group.path / "cpu.max").read_text().split() == ["5000", "10000"]
    for folder in (base, base / NAME, base / NAME / "host-0"):
        assert set((folder / "cgroup.subtree_control").read_text().split()) == {"cpu", "memory"}
    assert (group.path / "cgroup.subtree_control").read_text() == ""


def test_entering_is_one_write_per_hierarchy(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.v1(), machine.v1("memory", "memory")
    monkeypatch.setattr("runtime.live.machines.cgroups.find", machine.find)
    group = run_group(RUN_ID, memory=True)
    group.enter()
    assert machine.kernel.writes == [("cgroup.procs", "0")] * 2
    (group.path / "cgroup.procs").write_text("0\n17\n4\n")
    assert group.procs() == [17, 4]


def test_a_group_with_a_process_is_not_removed(group: Cgroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.live.machines.cgroups.REMOVE_S", 0.02)
    (group.path / "cgroup.procs").write_text("4711\n")
    with pytest.raises(OSError, match="busy"):
        group.remove()
    (group.path / "cgroup.procs").write_text("")
    group.remove()


@both
def test_a_weight_is_in_proportion_to_the_part_and_can_be_taken_back(machine: Machine, build: Build) -> None:
    """A hundredth is what the kernel gives to everybody; a whole is its largest weight with version 2."""
    build(machine)
    hierarchy = machine.find()
    group, version = hierarchy.create(RUN_ID), hierarchy.version
    file = group.path / ("cpu.shares" if version == 1 else "cpu.weight")
    default = file.read_text().strip()
    for frac in (1.0, 0.5, 0.25, 0.01, 1e-4):
        assert group.set_share(frac) == pytest.approx(frac, rel=0.03)
        assert int(file.read_text()) == pytest.approx(frac * (102_400 if version == 1 else 10_000), rel=0.03)
    assert group.set_share(None) == 0.01
    assert file.read_text().strip() == default


cores = st.floats(MIN_CORES, 4096.0)


def test_quotas_by_hand_and_the_least_one() -> None:
    assert [quota_of(asked) for asked in (0.01, 0.5, 64)] == [(1000, 100_000), (5000, 10_000), (640_000, 10_000)]
    assert [quota_of(asked, 4000) for asked in (0.01, 0.25, 0.4)] == [(1000, 100_000), (1000, 4000), (1600, 4000)]
    assert quota_of(MIN_CORES) == (1000, 1_000_000)
    for wrong in (0.0, -1.0, MIN_CORES / 2, math.inf, math.nan):
        with pytest.raises(QuotaRefused, match="the least quota is"):
            quota_of(wrong)


@given(cores)
def test_a_quota_is_what_the_kernel_takes_and_as_exact_as_it_can_be(asked: float) -> None:
    quota_us, period_us = quota_of(asked)
    assert in_range(quota_us or 0, period_us)
    assert (quota_us or 0) / period_us == pytest.approx(asked, rel=1e-3)


def test_in_version_1_the_period_is_written_first(machine: Machine, group: Cgroup) -> None:
    assert group.set_cores(0.02) == 0.02
    assert machine.kernel.writes == [("cpu.cfs_period_us", "50000"), ("cpu.cfs_quota_us", "1000")]
    machine.kernel.writes.clear()
    assert group.set_cores(None) is None
    assert machine.kernel.writes == [("cpu.cfs_quota_us", "-1")]


def test_what_is_refused_changes_nothing(machine: Machine) -> None:
    """The group that holds this process has a quota itself, which we did not set."""
    base = machine.v1(position="/box")
    fill(base, {"cpu.cfs_quota_us": "50000"})
    group = machine.find().create(RUN_ID)
    group.set_cores(0.05)
    with pytest.raises(QuotaRefused, match=r"0\.75 cores requested: more than .* ask for less"):
        group.set_cores(0.75)
    assert group.parts["cpu"].quota() == Quota(1000, 20_000)
    assert group.bound() == 0.05


@both
def test_a_quota_that_is_not_kept_is_refused(machine: Machine, build: Build) -> None:
    build(machine)
    group = machine.find().create(RUN_ID)
    group.set_cores(0.5)
    machine.kernel.deaf = {"cpu.max", "cpu.cfs_quota_us"}
    with pytest.raises(QuotaRefused, match=r"the kernel enforces 0\.5 cores"):
        group.set_cores(0.25)
    with pytest.raises(QuotaRefused, match=r"the kernel enforces 0\.5 cores"):
        group.set_cores(None)
    assert group.bound() == 0.5


@both
@pytest.mark.parametrize("seed", long_after(range(8), 2))
def test_a_group_has_what_was_asked_for_it_or_the_least_above_and_nothing_lawful_is_refused(
    machine: Machine, build: Build, seed: int
) -> None:
    random = Random(seed)
    build(machine)
    groups = [machine.find().create(RUN_ID)]
    for number in range(4):
        groups.append(random.choice(groups).create(f"group-{number}"))
    asked: dict[Path, float] = {one.path: math.inf for one in groups}
    for _ in range(40):
        group = random.choice(groups)
        cores = random.choice((None, MIN_CORES, 0.01, random.uniform(0.001, 0.1), random.uniform(0.1, 4.0)))
        got = group.set_cores(cores)
        asked[group.path] = math.inf if cores is None else cores
        for one in groups:
            least = min(asked.get(path, math.inf) for path in (one.path, *one.path.parents))
            assert effective(one.path) == pytest.approx(least, rel=2e-3)
            if one is group:
                assert got == (None if cores is None else pytest.approx(least, rel=2e-3))


def test_memory_and_swap_are_limited_in_an_order_that_is_never_refused(machine: Machine) -> None:
    machine.v1("memory", "memory")
    group = machine.find("memory").create(RUN_ID)
    alone, both_ = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
    machine.kernel.writes.clear()
    for limit in (2**28, 2**26, 2**27, None):
        assert group.set_memory_bytes(limit) == limit or limit is None
    assert [name for name, _ in machine.kernel.writes] == [alone, both_, alone, both_, both_, alone, both_, alone]


def test_version_2_writes_both_numbers_of_a_quota_at_once_and_lets_nobody_swap(machine: Machine) -> None:
    machine.v2()
    group, memory = (machine.find(kind).create(RUN_ID) for kind in ("cpu", "memory"))
    machine.kernel.writes.clear()
    assert [group.set_cores(0.02), group.set_cores(None)] == [0.02, None]
    assert [memory.set_memory_bytes(2**26), memory.set_memory_bytes(None)] == [2**26, None]
    limits = [("memory.max", str(2**26)), ("memory.swap.max", "0"), ("memory.max", "max"), ("memory.swap.max", "max")]
    assert machine.kernel.writes == [("cpu.max", "1000 50000"), ("cpu.max", "max 10000"), *limits]
    assert group.throttled() == Throttled(40, 30, 1.5)
    assert group.usage_s() == 2.5


def test_memory_is_read_back(machine: Machine) -> None:
    machine.v2()
    group = machine.find("memory").create(RUN_ID)
    machine.kernel.deaf = {"memory.max"}
    for held, good in (("67108864", True), ("67104768", False), ("max", False), ("67108865", False)):
        (group.path / "memory.max").write_text(held)
        if good:
            assert group.set_memory_bytes(2**26) == 2**26
            continue
        with pytest.raises(QuotaRefused, match="67108864 bytes of memory requested, the kernel enforces"):
            group.set_memory_bytes(2**26)


def test_statistics_of_version_1(machine: Machine, group: Cgroup) -> None:
    assert group.throttled() == Throttled(40, 30, 1.5)
    assert group.usage_s() is None
    (group.path / "cpuacct.usage").write_text("2500000000\n")
    assert group.usage_s() == 2.5


def test_version_1_counts_processor_time_where_cpuacct_is_mounted(machine: Machine) -> None:
    """Apart from ``cpu``: in a group of its own there. Nowhere, together, or with version 2: no more groups."""
    machine.v1()
    where = {"mounts_text": machine.mounts, "self_cgroup_text": machine.own, "root": machine.root}
    assert counting_apart(machine.find(), **where, kernel=machine.kernel) is None
    fill(machine.v1("cpuacct", "cpuacct"), {"cpuacct.usage": "0\n"})
    where |= {"mounts_text": machine.mounts, "self_cgroup_text": machine.own}
    counting = counting_apart(machine.find(), **where, kernel=machine.kernel)
    group = Cgroup(
        {"cpu": machine.find().create(RUN_ID).parts["cpu"], "cpuacct": counting.create(RUN_ID).parts["cpuacct"]}
    )
    host = group.create("host-0")
    assert [path.parts[-3] for path in host.paths] == ["cpu", "cpuacct"]
    (host.paths[1] / "cpuacct.usage").write_text("2500000000\n")
    assert host.usage_s() == 2.5
    fill(machine.find().base, {"cpuacct.usage": "0\n"})
    assert counting_apart(machine.find(), **where, kernel=machine.kernel) is None


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


def test_a_kernel_without_weights_is_named(machine: Machine, group: Cgroup) -> None:
    (group.path / "cpu.shares").unlink()
    with pytest.raises(QuotaRefused, match=r"a share of 0\.5 requested: this kernel lacks this limit"):
        group.set_share(0.5)


def test_removing_takes_all_groups_below(machine: Machine, group: Cgroup) -> None:
    host = group.create("host-0")
    host.create("worker-0")
    host.remove()
    assert not host.path.exists()
    assert group.below == []
    group.create("host-0").create("worker-0")
    group.remove()
    group.remove()
    assert not group.path.exists()
