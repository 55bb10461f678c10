"""The daemon of MPS, by a stand-in that does what the real one does with its pipes and its input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.errors import ConfigError
from runtime.live.machines import mps
from runtime.live.machines.mps import mps_daemon

DAEMON = """#!/bin/sh
if [ "$1" = "-f" ]; then
    {starting}
    echo "$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER" > "$CUDA_MPS_PIPE_DIRECTORY/control"
    exec sleep 60
else
    read words; echo "$words" > {said}
fi
"""


def daemon(folder: Path, starting: str = ":") -> str:
    path = folder / "daemon"
    path.write_text(DAEMON.format(starting=starting, said=folder / "said"))
    path.chmod(0o755)
    return str(path)


def test_it_runs_while_it_is_needed_and_is_asked_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps, "ENDS_S", 0.2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    with mps_daemon(daemon(tmp_path, f"echo $$ > {tmp_path}/pid")) as pipes:
        assert (pipes / "control").read_text() == " PCI_BUS_ID\n", "it serves all: clients say which"
        group = int((tmp_path / "pid").read_text())
        os.killpg(group, 0)
    assert (tmp_path / "said").read_text() == "quit\n"
    assert not pipes.exists()
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def test_one_that_does_not_start_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = daemon(tmp_path, "echo An instance is running >&2; exit 1")
    with pytest.raises(ConfigError, match=r"the daemon has ended \(An instance is running\); use"), mps_daemon(failing):
        pass
    monkeypatch.setattr(mps, "STARTS_S", 0.1)
    monkeypatch.setattr(mps, "ENDS_S", 0.2)
    with pytest.raises(ConfigError, match=r"was not ready within 0\.1 s"), mps_daemon(daemon(tmp_path, "sleep 9")):
        pass
