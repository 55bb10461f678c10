"""Programs in forks of an interpreter that has imported the libraries, and nothing else, so that nobody waits for them.

To a program it is a new interpreter: Hydra has not looked for plugins yet, and nothing of ours is imported, unlike in a
fork of the tests' own process (:func:`tests.support.cli.run_cli`). Run as a program, this file is that interpreter.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import NoReturn

LIBRARIES = (
    "hydra.utils",
    "matplotlib.pyplot",
    "numpy",
    "pandas",
    "pyarrow.parquet",
    "scipy.stats",
    "sklearn.datasets",
    "torch",
    "rich.table",
)


class Prepared:
    """The interpreter; starts at the first program."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """``python *command`` with the environment that the caller has now."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            asked = {"command": command, "cwd": str(cwd), "env": dict(os.environ), "out": str(out), "err": str(err)}
            code = self._ask(json.dumps(asked))
            return subprocess.CompletedProcess(command, code, out.read_text(), err.read_text())

    def _ask(self, line: str) -> int:
        if self._process is None:
            command = [sys.executable, __file__]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End it, if it was started."""
        if self._process is not None:
            self._process.communicate()


def serve() -> None:
    """Fork for every line, and answer with the exit code."""
    for library in LIBRARIES:
        importlib.import_module(library)
    warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads of BLAS: nothing was computed with them
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            become(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    os._exit(0)  # PyTorch takes its time to end


def become(command: list[str], cwd: str, env: dict[str, str], out: str, err: str) -> NoReturn:
    """Continue as the program; its streams are files."""
    warnings.resetwarnings()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, path in enumerate((os.devnull, out, err)):
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.argv = command
    places = env.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [str(Path(command[0]).parent), *filter(None, places), *sys.path[1:]]
    code = 0
    try:
        runpy.run_path(command[0], run_name="__main__")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1 if ended.code else 0
    except BaseException:  # noqa: BLE001 (whatever it is, the fork ends here)
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # PyTorch takes its time to end


if __name__ == "__main__":
    serve()
