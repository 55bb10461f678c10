"""A session of tests that is ended by a signal leaves nothing that its tests have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runs import ROOT, alive, until

pytestmark = pytest.mark.live

TEST = """
import os, signal, subprocess, sys, time

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it,
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and those of nohup this one

def test_it():
    far = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    deaf = subprocess.Popen([sys.executable, "-c", program])
    print(far.pid, deaf.pid, file=sys.__stdout__, flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        *(pytest.param(one, marks=pytest.mark.long) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)),
    ],
)
def test_what_tests_have_started_ends(number: signal.Signals, tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(TEST)
    plugins = ("-p", "no:cacheprovider", "-p", "tests.support.reaper")
    words = ["-m", "pytest", "-q", "-s", *plugins, "-c", os.devnull, "--rootdir", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, *words, str(file)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as session:
        assert session.stdout is not None
        pids = [int(pid) for pid in session.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(alive, pids))
        session.send_signal(number)
    until(lambda: not any(map(alive, pids)), "their end")
