"""NVIDIA's Multi-Process Service (MPS), by which several processes compute on one GPU at once.

The daemon is a child of the run, in its namespaces, so the kernel ends it and its servers with the run. Clients find it
by the directory of its pipes, which no other run knows.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runtime.backends.devices.found import ORDER, VISIBLE, order_of
from runtime.errors import ConfigError

PROGRAM = "nvidia-cuda-mps-control"
STARTS_S, ENDS_S, LOOK_S = 10.0, 5.0, 0.02


@contextmanager
def mps_daemon(program: str = PROGRAM) -> Iterator[Path]:
    """Run the daemon; gives the directory of its pipes. Raises ``ConfigError`` if it does not start."""
    with tempfile.TemporaryDirectory(prefix="stragglab-mps-", ignore_cleanup_errors=True) as directory:
        pipes = Path(directory)
        environment = {name: value for name, value in os.environ.items() if name != VISIBLE}  # clients choose
        environment[ORDER] = order_of()  # clients name devices as it counts them
        environment |= {"CUDA_MPS_PIPE_DIRECTORY": directory, "CUDA_MPS_LOG_DIRECTORY": directory}
        daemon = subprocess.Popen(
            [program, "-f"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        try:
            _await(daemon, pipes / "control")
            yield pipes
        finally:
            _end(daemon, program, environment)


def _await(daemon: subprocess.Popen[str], pipe: Path) -> None:
    """Wait until clients can connect."""
    until_s = time.monotonic() + STARTS_S
    while not pipe.exists():
        if daemon.poll() is not None:
            assert daemon.stderr is not None
            words = daemon.stderr.read().strip().splitlines()
            raise ConfigError(
                f"cluster.gpus.share=mps: the daemon has ended ({words[-1] if words else daemon.returncode}); use "
                "cluster.gpus.share=time"
            )
        if time.monotonic() > until_s:
            raise ConfigError(
                f"cluster.gpus.share=mps: the daemon was not ready within {STARTS_S:g} s; use cluster.gpus.share=time"
            )
        time.sleep(LOOK_S)


def _end(daemon: subprocess.Popen[str], program: str, environment: dict[str, str]) -> None:
    """Ask it to end with its servers, then end what is left of its group."""
    if daemon.poll() is None:
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run([program], input="quit\n", env=environment, text=True, capture_output=True, timeout=ENDS_S)
        with suppress(subprocess.TimeoutExpired):
            daemon.wait(ENDS_S)
    with suppress(ProcessLookupError):
        os.killpg(daemon.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        daemon.wait(ENDS_S)
    if daemon.stderr is not None:
        daemon.stderr.close()
