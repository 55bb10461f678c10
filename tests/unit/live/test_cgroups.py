"""Groups of a run on fake trees: quotas, memory, statistics, what is refused."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.live.machines.cgroup_files import MIN_CORES, Quota, Throttled, quota_of
from runtime.live.machines.cgroups import Cgroup, CgroupUnavailable, QuotaRefused, counting_apart, run_group
from tests.support.cgroup_trees import Machine, both, effective, fill, in_range
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


# ---- a run's group --------------------------------------------------------------------------------------------------


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


def test_a_group_with_a_process_is_not_removed(group: Cgroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.live.machines.cgroups.REMOVE_S", 0.02)
    (group.path / "cgroup.procs").write_text("4711\n")
    with pytest.raises(OSError, match="busy"):
        group.remove()
    (group.path / "cgroup.procs").write_text("")
    group.remove()


# ---- weights ---------------------------------------------------------------------------------------------------------


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


def test_a_kernel_without_weights_is_named(machine: Machine, group: Cgroup) -> None:
    (group.path / "cpu.shares").unlink()
    with pytest.raises(QuotaRefused, match=r"a share of 0\.5 requested: this kernel lacks this limit"):
        group.set_share(0.5)


# ---- quotas ---------------------------------------------------------------------------------------------------------

cores = st.floats(MIN_CORES, 4096.0)


@pytest.mark.parametrize(
    ("asked", "period_us", "expected"),
    [
        (0.01, (), (1000, 100_000)),
        (0.1, (), (1000, 10_000)),
        (0.5, (), (5000, 10_000)),
        (64, (), (640_000, 10_000)),
        (0.01, (4000,), (1000, 100_000)),  # longer: the kernel would take less than 1 ms for nothing
        (0.25, (4000,), (1000, 4000)),
        (0.4, (4000,), (1600, 4000)),
    ],
)
def test_quotas_by_hand(asked: float, period_us: tuple[int, ...], expected: tuple[int, int]) -> None:
    assert quota_of(asked, *period_us) == expected


def test_groups_have_the_period_of_the_group_above(machine: Machine, group: Cgroup) -> None:
    group.period_us = 4000
    below = group.create("task")
    group.set_cores(1.0)
    below.set_cores(0.5)
    assert [one.parts["cpu"].quota() for one in (group, below)] == [(4000, 4000), (2000, 4000)]


def test_the_least_that_a_quota_holds() -> None:
    assert quota_of(MIN_CORES) == (1000, 1_000_000)
    for wrong in (0.0, -1.0, MIN_CORES / 2, math.inf, math.nan):
        with pytest.raises(QuotaRefused, match="the least quota is"):
            quota_of(wrong)


@given(cores)
def test_a_quota_is_what_the_kernel_takes_and_as_exact_as_it_can_be(asked: float) -> None:
    quota_us, period_us = quota_of(asked)
    assert in_range(quota_us or 0, period_us)
    assert (quota_us or 0) / period_us == pytest.approx(asked, rel=1e-3)


@given(cores, cores)
def test_from_quota_to_quota_both_numbers_never_go_the_same_way(one: float, other: float) -> None:
    (quota, period), (next_quota, next_period) = quota_of(min(one, other)), quota_of(max(one, other))
    assert (quota or 0) <= (next_quota or 0)
    assert period >= next_period


def test_in_version_1_the_period_is_written_first(machine: Machine, group: Cgroup) -> None:
    assert group.set_cores(0.02) == 0.02
    assert machine.kernel.writes == [("cpu.cfs_period_us", "50000"), ("cpu.cfs_quota_us", "1000")]
    machine.kernel.writes.clear()
    assert group.set_cores(None) is None
    assert machine.kernel.writes == [("cpu.cfs_quota_us", "-1")]


def test_in_version_2_both_numbers_are_one_write(machine: Machine) -> None:
    machine.v2()
    group = machine.find().create(RUN_ID)
    machine.kernel.writes.clear()
    assert group.set_cores(0.02) == 0.02
    assert group.set_cores(None) is None
    assert machine.kernel.writes == [("cpu.max", "1000 50000"), ("cpu.max", "max 10000")]


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


@pytest.mark.few(6)
@both
@pytest.mark.parametrize("seed", long_after(range(20), 6))
def test_a_group_has_what_was_asked_for_it_or_the_least_above_and_nothing_lawful_is_refused(
    machine: Machine, build: Build, seed: int
) -> None:
    random = Random(seed)
    build(machine)
    groups = [machine.find().create(RUN_ID)]
    for number in range(4):
        groups.append(random.choice(groups).create(f"group-{number}"))
    asked: dict[Path, float] = {one.path: math.inf for one in groups}
    for _ in range(60):
        group = random.choice(groups)
        cores = random.choice((None, MIN_CORES, 0.01, random.uniform(0.001, 0.1), random.uniform(0.1, 4.0)))
        got = group.set_cores(cores)
        asked[group.path] = math.inf if cores is None else cores
        for one in groups:
            least = min(asked.get(path, math.inf) for path in (one.path, *one.path.parents))
            assert effective(one.path) == pytest.approx(least, rel=2e-3)
            if one is group:
                assert got == (None if cores is None else pytest.approx(least, rel=2e-3))


# ---- memory and statistics ------------------------------------------------------------------------------------------


def test_memory_and_swap_are_limited_in_an_order_that_is_never_refused(machine: Machine) -> None:
    machine.v1("memory", "memory")
    group = machine.find("memory").create(RUN_ID)
    alone, both_ = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
    machine.kernel.writes.clear()
    for limit in (2**28, 2**26, 2**27, None):
        assert group.set_memory_bytes(limit) == limit or limit is None
    assert [name for name, _ in machine.kernel.writes] == [alone, both_, alone, both_, both_, alone, both_, alone]


def test_memory_in_version_2_does_not_swap(machine: Machine) -> None:
    machine.v2()
    group = machine.find("memory").create(RUN_ID)
    machine.kernel.writes.clear()
    assert group.set_memory_bytes(2**26) == 2**26
    assert group.set_memory_bytes(None) is None
    assert machine.kernel.writes == [
        ("memory.max", str(2**26)),
        ("memory.swap.max", "0"),
        ("memory.max", "max"),
        ("memory.swap.max", "max"),
    ]


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


def test_statistics_of_version_2(machine: Machine) -> None:
    machine.v2()
    group = machine.find().create(RUN_ID)
    assert group.throttled() == Throttled(40, 30, 1.5)
    assert group.usage_s() == 2.5
