"""``scripts/cluster/ray_local.py`` with a stand-in for Ray: a signal ends it at once, whatever Ray would do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.runs import ROOT, alive

RAY = """
import atexit, signal, subprocess, sys, time

class Node:
    def __init__(self):
        self.process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        signal.signal(signal.SIGTERM, lambda *_: time.sleep(1000))
        print("node", self.process.pid, flush=True)

    def kill_all_processes(self, check_alive, allow_graceful):
        assert not check_alive and not allow_graceful
        self.process.kill()

class Cluster:
    address = "127.0.0.1:1"

    def __init__(self, **about):
        atexit.register(time.sleep, 1000)
        self.nodes = [Node()]

    def add_node(self, **about):
        self.nodes.append(Node())

    def list_all_nodes(self):
        return self.nodes

    def shutdown(self):
        time.sleep(1000)
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_good_order(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").touch()
    (tmp_path / "ray" / "cluster_utils.py").write_text(RAY)
    with subprocess.Popen(
        [sys.executable, "-m", "scripts.cluster.ray_local", "2"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        lines = [program.stdout.readline() for _ in range(5)]
        nodes = [int(line.split()[1]) for line in lines if line.startswith("node ")]
        folder = Path(lines[-1].split("launcher.auth_token_file=")[1].split()[0]).parent
        assert (len(nodes), folder.is_dir(), all(map(alive, nodes))) == (2, True, True)
        program.send_signal(number)
        _, err = program.communicate(timeout=60)
    assert (program.returncode, err) == (0, "")
    assert not folder.exists()
    deadline = time.monotonic() + 60
    while any(map(alive, nodes)):  # killed, and gone once the system has let go of them
        assert time.monotonic() < deadline
        time.sleep(0.02)
