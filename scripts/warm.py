"""Runs of ``run.py`` forked from one process that has imported what they all need: some two seconds less for each.

For runs on the virtual clock, whose results do not depend on how they were started. Live runs are better started as
users start them.

The process takes a line of JSON (words, log) for each run and answers with two lines: the process id of the run, and
its exit code. It has computed nothing when it forks, so no thread pool is left behind (DESIGN.md, threads and forks).
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from runtime.live.process import die_with
from scripts.grid import ROOT

SERVE = "import sys; sys.path.insert(0, sys.argv[1]); from scripts.warm import serve; serve()"


class WarmRunner:
    """A :data:`scripts.grid.Runner`. Its process starts with the first run, and ends with the context."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> WarmRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()  # and what it has forked dies with it
            with process:  # closes its pipes and waits
                pass

    def __call__(self, words: Sequence[str], log: Path) -> int:
        """Run it to its end; an interruption of this program ends it first, as :func:`scripts.grid.run_child` does."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(json.dumps([list(words), str(log)]) + "\n")
        process.stdin.flush()
        pid = self._answer()
        try:
            return self._answer()
        except KeyboardInterrupt:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
            raise

    def _answer(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise OSError("the process that starts the virtual runs has ended")
        return int(line)

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", SERVE, str(ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=partial(die_with, os.getpid()),
            env={**os.environ, **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}},
        )


def serve() -> None:
    """The life of the process: import, then fork a run for each line of standard input."""
    import torch  # noqa: F401

    import run  # noqa: F401

    for line in sys.stdin:
        words, log = json.loads(line)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _become(words, log)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(words: Sequence[str], log: str) -> None:
    """Be ``run.py`` with these words; never returns."""
    code = 1
    try:
        die_with(os.getppid())
        os.setsid()
        with open(os.devnull, "rb") as nothing, open(log, "wb") as output:
            os.dup2(nothing.fileno(), 0)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        sys.argv[:] = [str(ROOT / "run.py"), *words]
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:  # noqa: BLE001 - it is the end of this process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
