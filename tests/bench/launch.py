"""Runs one measurement in processes of its own, and ends all of them whatever happens.

``call("peers.ddp_gloo", "bsp_step", model="mlp")`` starts a driver (driver.py) in a new session, which calls that
function and reports its result; the function may start what it likes. Nothing is shared with pytest's process: no
import, no thread pool, no warning filter, no open socket.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import IO, Any

from .cleanup import SESSION, VARIABLE, session_folder, sweep

BENCH = Path(__file__).resolve().parent
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
GRACE_S = 5.0
"""Daemons of an ended peer may take this long to notice."""
PR_SET_PDEATHSIG = 1
_calls = count()


class Unavailable(Exception):
    """This peer cannot run here; the message says why and what would help."""


class PeerError(RuntimeError):
    """A measurement failed or hung; the message ends with what it printed."""


def call(
    module: str,
    function: str,
    *,
    timeout_s: float = 120.0,
    python: str = sys.executable,
    tidy: bool = True,
    **arguments: Any,
) -> Any:
    """The JSON result of ``bench.<module>.<function>(**arguments)``, run with one thread per process.

    With ``tidy``, a process that outlives the measurement by ``GRACE_S`` makes it an error (it is killed in any case).
    """
    what = f"{module}.{function}({arguments})"
    token = f"{SESSION}-{next(_calls)}-"
    folder = tempfile.mkdtemp(prefix="", dir=session_folder())
    command = [python, "-m", "bench.driver", module, function, json.dumps(arguments)]
    # A file and not a pipe: a pipe ends only when the last stray grandchild that holds it has gone.
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command,
            env=_environment(token, folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise PeerError(f"{what}: no result within {timeout_s:.0f} s\n{_tail(output)}") from None
        finally:
            left = sweep(token, 0.0 if process.poll() is None else GRACE_S)
            process.wait(10)
            shutil.rmtree(folder, ignore_errors=True)
        return _result(what, _tail(output), left if tidy else [])


def _tail(output: IO[str]) -> str:
    output.seek(0)
    return output.read()[-4000:].strip()


def _environment(token: str, folder: str) -> dict[str, str]:
    # tests/ first, so that `bench` is this package and not somebody's; the root for `runtime` and `strategies`.
    paths = [str(BENCH.parent), str(BENCH.parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {VARIABLE: token, "TMPDIR": folder, "PYTHONPATH": os.pathsep.join(paths), "GLOO_SOCKET_IFNAME": "lo"}
    return {**os.environ, **THREADS, **own}


def _result(what: str, output: str, left: list[int]) -> Any:
    """The driver's last line is its answer; everything above it is what the peer's own processes printed."""
    try:
        reply = json.loads(output.rpartition("\n")[2])
    except ValueError:
        raise PeerError(f"{what} died without an answer:\n{output}") from None
    if "unavailable" in reply:
        raise Unavailable(reply["unavailable"])
    if "error" in reply:
        raise PeerError(f"{reply['error']}\n{what}\n{output}")
    if left:
        raise PeerError(f"{what} left {len(left)} processes behind (now killed)")
    return reply["result"]


def die_with_parent() -> None:
    """SIGKILL for this process when its parent is gone, so that even a killed driver leaves nothing (Linux)."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
