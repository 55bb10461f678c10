"""A control group of our own, and work in it that does not make the kernel look at its quota."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from runtime.live.machines.cgroups import Cgroup, CgroupUnavailable, run_group


@contextmanager
def own_group(cores: float) -> Iterator[Cgroup]:
    """A group with this quota; skips the test where there are no control groups."""
    try:
        group = run_group(os.urandom(8).hex())
    except CgroupUnavailable as error:
        pytest.skip(str(error))
    try:
        group.set_cores(cores)
        yield group
    finally:
        group.remove()


def within(group: Cgroup, play: Callable[[], bytes]) -> bytes:
    """What ``play()`` returns in a child that has entered the group; nothing if it fails. Less than a pipe holds."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            group.enter()
            os.write(write, play())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as results:
        found = results.read()
    os.waitpid(child, 0)
    return found


def spin(count: int) -> None:
    """Work that asks nobody for the time: to ask for processor time makes the kernel look."""
    for _ in range(count):
        pass
