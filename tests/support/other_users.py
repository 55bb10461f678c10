"""Programs that a test starts as whoever it is or as an ordinary user, and that end with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.runs import ROOT, marks

DEBIAN = "/usr/bin/python3"
"""An interpreter that an ordinary user can read; the one of the tests may lie in root's home."""
NOBODY = 65534


class Begin(Protocol):
    """Starts Python with these arguments as ``user`` (None: as we are), with ``paths`` to import from besides ours."""

    def __call__(
        self, *arguments: str, user: int | None = None, paths: Sequence[str] = ()
    ) -> subprocess.Popen[str]: ...


@contextmanager
def programs(directory: Path) -> Iterator[Begin]:
    """Start some; what still runs at the end is killed. Their files are marked as those of a test in ``directory``."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, user: int | None = None, paths: Sequence[str] = ()) -> subprocess.Popen[str]:
        if user is not None and (os.geteuid() != 0 or not os.access(DEBIAN, os.X_OK)):
            pytest.skip("needs root, to become somebody else, and Debian's python3")
        process = subprocess.Popen(
            [sys.executable if user is None else DEBIAN, "-B", *arguments],
            cwd="/" if user is not None else ROOT,  # others may not be able to read ours
            env={**os.environ, **marks(directory), "PYTHONPATH": os.pathsep.join([str(ROOT), *paths])},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            user=user,
        )
        started.append(process)
        return process

    try:
        yield begin
    finally:
        for process in started:
            process.kill()
            process.communicate()
