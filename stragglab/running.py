"""Runs from Python: each in a process of its own, as from the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.config.project import SETTING
from runtime.house import run_py

if TYPE_CHECKING:
    from analysis.records.load import Run

RECORD = "record: "


class RunFailed(RuntimeError):
    """A run was refused or failed; the message is what it said last."""


def run(*settings: str, into: str | Path | None = None, project: str | Path | None = None) -> Run:
    """Run one job to its end and load its record: ``run("strategy=ssp", "runtime=virtual")``.

    ``settings`` are written as on the command line; ``into`` is the directory of the record (default: a new one below
    ``runs``), ``project`` a folder with configurations and code of your own. Raises :class:`RunFailed`.
    """
    from analysis.records.load import load_run

    words = [f"{SETTING}={project}"] if project is not None else []
    words += ["view=none", *settings]
    if into is not None:
        text = str(Path(into).absolute()).replace("'", "\\'")
        words.append(f"hydra.run.dir='{text}'")
    done = subprocess.run(run_py(*words), stderr=subprocess.PIPE, text=True, check=False)
    said = done.stderr.strip().splitlines()
    if done.returncode != 0:
        why = [line for line in said if not line.startswith(RECORD)] or [f"exit code {done.returncode}"]
        raise RunFailed(why[-1])
    for line in said:
        if not line.startswith(RECORD):
            print(line, file=sys.stderr)
    return load_run(next(line.removeprefix(RECORD) for line in said if line.startswith(RECORD)))


def check(project: str | Path, *flags: str) -> int:
    """Check a project as ``stragglab check DIR`` does, which prints what it finds; 0 if nothing failed."""
    return subprocess.run(run_py("check", str(project), *flags), check=False).returncode
