"""Tests that need Ray (``make ray``); every run here starts processes, and none may leave anything behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from tests.on_ray.apart import RayApart
from tests.support.joined import namespaces, shared  # noqa: F401
from tests.support.leaks import leak_oracle, start  # noqa: F401
from tests.support.runs import ROOT

NODES, GPUS = 3, 2
"""GPUs are declared and not there."""


class Raylets(NamedTuple):
    """A Ray cluster of this machine, and what a run needs to know of it."""

    words: tuple[str, ...]

    def at(self, nodes: int = NODES) -> tuple[str, ...]:
        """The settings of a run on some of its nodes."""
        return (*self.words, f"launcher.nodes={nodes}")


@pytest.fixture(scope="session")
def raylets() -> Iterator[Raylets]:
    pytest.importorskip("ray")
    command = [sys.executable, "-m", "scripts.cluster.ray_local", str(NODES), "--gpus", str(GPUS), "--until-eof"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        words: list[str] = []
        for line in process.stdout:
            words += [word for word in line.split() if word.startswith("launcher")]
            if "launcher.listen" in line:
                break
        yield Raylets(tuple(word for word in words if not word.startswith("launcher.nodes=")))
        process.stdin.close()
        process.wait(60)


@pytest.fixture
def ray_apart() -> Iterator[RayApart]:
    """Two machines, for runs on both."""
    with on_machines(2) as cluster:
        yield cluster


@pytest.fixture
def ray_apart_with_spare() -> Iterator[RayApart]:
    """A machine more than a run has."""
    with on_machines(3) as cluster:
        yield cluster


@contextmanager
def on_machines(count: int) -> Iterator[RayApart]:
    pytest.importorskip("ray")
    with namespaces(count) as machines:
        cluster = RayApart(machines)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()
