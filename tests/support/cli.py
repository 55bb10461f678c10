"""Runs ``run.py`` in a forked child: a real process with real exit codes, without paying for the imports each time."""

from __future__ import annotations

import gc
import os
import runpy
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from runtime.containment.process import die_with
from runtime.house import ROOT, module_name
from runtime.run.preflight import preflight

IMPORTED = ("analysis.reports.sweep", *(f"runtime.run.{name}" for name in ("claiming", "launch", "prepare", "streams")))
"""By ``run.py``, which cannot be imported itself, since it takes over signals."""

for _name in IMPORTED:
    import_module(module_name(_name))
preflight([])  # whatever it imports and caches, the children inherit


@dataclass(frozen=True)
class Finished:
    """What a command left."""

    exit_code: int
    out: str
    err: str


def run_cli(*words: str, cwd: Path = ROOT) -> Finished:
    """``python run.py *words`` in ``cwd``."""
    return in_a_fork(partial(_program, words), cwd)


def refusal(*words: str, cwd: Path = ROOT) -> str:
    """The one line with which ``python run.py *words`` ends before it begins."""
    done = run_cli(*words, cwd=cwd)
    assert (done.exit_code, done.out, done.err.count("\n")) == (2, "", 1), done
    return done.err.removeprefix("run.py: ").removesuffix("\n")


def run_text(text: str) -> Finished:
    """``python -c text``, where libraries are imported already."""
    return in_a_fork(partial(exec, text, {}), ROOT)


def in_a_fork(call: Callable[[], object], cwd: Path) -> Finished:
    """``call`` in a child of this process, with streams of its own."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads of BLAS: the child uses none
            # else the child looks for garbage in all that is here, and copies its pages: 0.3 s; and it stays frozen, or
            # the next full collection of the tests' own process would go through all of it again
            gc.collect(1)
            gc.freeze()
            pid = os.fork()
        if pid == 0:
            _child(call, out.fileno(), err.fileno(), cwd)
        _, status = os.waitpid(pid, 0)
        out.seek(0)
        err.seek(0)
        return Finished(os.waitstatus_to_exitcode(status), out.read(), err.read())


def _program(words: tuple[str, ...]) -> None:
    sys.argv = [str(ROOT / "run.py"), *words]
    runpy.run_path(sys.argv[0], run_name="__main__")


def _child(call: Callable[[], object], out: int, err: int, cwd: Path) -> NoReturn:
    exit_code = 1
    try:
        die_with(os.getppid())
        os.chdir(cwd)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)  # not pytest's
        warnings.resetwarnings()
        call()
        exit_code = 0
    except SystemExit as error:
        exit_code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 (whatever it is, the child ends here)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)
