"""Control groups of this machine's kernel: what is set is held; it refuses what the fake one of the tests refuses."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from runtime.live.machines.cgroup_files import V1, Quota
from runtime.live.machines.cgroups import Cgroup, CgroupUnavailable, QuotaRefused, find, run_group
from tests.support.cgroup_trees import V1_FILES, Fake, fill

pytestmark = [pytest.mark.live, pytest.mark.root, pytest.mark.alone]
SHARES = (0.001, 0.01, 0.013, 0.02, 0.05, 0.0999, 0.1, 0.123, 0.25, 0.333, 0.5, 0.75, 1.0, 1.5, 64.0)
DEADLINE_S = 60.0


def group_for(**kinds: bool) -> Iterator[Cgroup]:
    try:
        group = run_group(os.urandom(8).hex(), **kinds)
    except CgroupUnavailable as error:
        pytest.skip(str(error))
    yield group
    group.remove()


@pytest.fixture
def group() -> Iterator[Cgroup]:
    yield from group_for()


@pytest.fixture
def memory() -> Iterator[Cgroup]:
    yield from group_for(cpu=False, memory=True)


def test_a_quota_is_held_and_a_probe_leaves_nothing(group: Cgroup) -> None:
    for cores in SHARES:
        assert group.set_cores(cores) == pytest.approx(cores, rel=1e-3)
        assert group.cores() == pytest.approx(cores, rel=1e-3)
    assert group.set_cores(None) is group.cores() is None
    before = sorted(os.listdir(group.path.parent))
    find("cpu").probe()
    assert sorted(os.listdir(group.path.parent)) == before
    mounted = any(
        " cgroup " in line and "cpuacct" in line for line in Path("/proc/self/mounts").read_text().splitlines()
    )
    assert (group.usage_s() is not None) == (group.parts["cpu"].version == 2 or mounted)


def test_every_change_of_nested_quotas_is_taken(group: Cgroup) -> None:
    random = Random(3)
    groups = [group, host := group.create("host-0"), host.create("worker-0"), host.create("worker-1")]
    for _ in range(200):
        random.choice(groups).set_cores(random.choice((None, *SHARES, random.uniform(0.001, 2.0))))
        for one in groups:
            held = [above.cores() for above in groups if one.path.is_relative_to(above.path)]
            least = min((cores for cores in held if cores is not None), default=float("inf"))
            assert least == pytest.approx(one.bound(), rel=2e-3)


def test_what_this_kernel_refuses_is_said_with_a_cure(group: Cgroup) -> None:
    """More than a group above has, of which the object knows nothing."""
    worker = group.create("worker-0")
    worker.set_cores(0.1)
    if worker.parts["cpu"].version != 1:
        pytest.skip("version 2 takes it: the least counts there")
    group.parts["cpu"].set_quota(Quota(2_000, 10_000))
    with pytest.raises(QuotaRefused, match="ask for less"):
        worker.set_cores(0.3)
    assert worker.cores() == 0.1


FREE, HALF = (-1, 100_000), (5000, 10_000)


@pytest.mark.parametrize(
    ("above", "below"),
    [
        *((FREE, below) for below in ((500, 10_000), (1000, 1_000_000), (1000, 2_000_000), (1000, 500), (0, 10_000))),
        *((HALF, below) for below in (HALF, (5001, 10_000), (50_000, 100_000), (-1, 10_000))),
        ((1000, 100_000), (1000, 50_000)),
    ],
)
def test_the_fake_kernel_of_the_tests_refuses_what_this_one_does(
    group: Cgroup, tmp_path: Path, above: tuple[int, int], below: tuple[int, int]
) -> None:
    if group.parts["cpu"].version != 1:
        pytest.skip("the rules of version 1")
    real = group.parts["cpu"]
    fake = V1(fill(tmp_path / "cpu", V1_FILES), Fake())
    assert raw_writes(real, above, below) == raw_writes(fake, above, below)


def raw_writes(group: object, *quotas: tuple[int, int]) -> list[bool]:
    """Whether each write of a period, and of a quota, was taken: of the group, then of one below it."""
    assert isinstance(group, V1)
    taken = []
    for files, numbers in zip((group, group.below("worker-0", "cpu")), quotas, strict=True):
        for name, number in zip(("cpu.cfs_period_us", "cpu.cfs_quota_us"), reversed(numbers), strict=True):
            try:
                files.put(name, number)
                taken.append(True)
            except OSError:
                taken.append(False)
    return taken


@contextlib.contextmanager
def busy(group: Cgroup) -> Iterator[subprocess.Popen[bytes]]:
    """A process that enters a group as soon as it exists, and never rests."""
    words = [sys.executable, "-I", "-S", "-c", "while True: pass"]
    with subprocess.Popen(words, preexec_fn=group.enter) as process:
        try:
            yield process
        finally:
            process.kill()


def test_who_is_in_a_group_is_kept_to_its_quota_and_in_the_way_of_its_removal(
    group: Cgroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.live.machines.cgroups.REMOVE_S", 0.0)
    worker = group.create("worker-0")
    worker.set_cores(0.05)
    with busy(worker) as process:
        assert worker.procs() == [process.pid]
        assert group.procs() == []
        deadline = time.monotonic() + DEADLINE_S
        while not (stat := worker.throttled()).throttled_s and time.monotonic() < deadline:
            time.sleep(0.01)
        assert stat.throttled_s > 0
        assert stat.num_periods >= stat.num_throttled > 0
        with pytest.raises(OSError, match="busy"):
            group.remove()
    monkeypatch.undo()
    group.remove()
    assert not group.path.exists()


def test_a_memory_limit_is_held(memory: Cgroup) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    for limit in (2**26, 2**30, 2**26 + page + 1, None):
        held = memory.set_memory_bytes(limit)
        assert held == (None if limit is None else limit // page * page)


def test_an_ordinary_user_is_told_what_to_do(group: Cgroup) -> None:
    """In a child that is nobody any more; where systemd delegates, an ordinary user is one of its own."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            find("cpu")
            os.write(writing, b"found one")
        except CgroupUnavailable as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        words = pipe.read()
    assert words.startswith(f"no permission to make control groups in {group.path.parent}; run as root")
