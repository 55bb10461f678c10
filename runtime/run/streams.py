"""Standard streams without a reader: a job continues without its view.

``2>&1 | head -1`` leaves a pipe without a reader, ``>/dev/full`` a full file, ``2>&-`` no stream at all, whose number
the next opened file would get: output would then end up in the record.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

from runtime.errors import FAILED, print_error

NUM_STANDARD = 3


class _Patient(io.FileIO):
    """Writes as long as there is a reader, and then discards, also for child processes."""

    def write(self, data: Any, /) -> int:
        """Never raises ``OSError``; output that a busy reader does not accept now is lost."""
        with contextlib.suppress(OSError):
            written = super().write(data)
            return memoryview(data).nbytes if written is None else written
        _to_nowhere(self.fileno())
        return memoryview(data).nbytes


def secure() -> None:
    """Make output safe whatever happens to the standard streams; call it before any file is opened."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    while nowhere < NUM_STANDARD:  # descriptors that were closed are filled from the lowest up
        os.set_inheritable(nowhere, True)
        nowhere = os.open(os.devnull, os.O_RDWR)
    os.close(nowhere)
    sys.stdout, sys.stderr = _patient(sys.stdout, 1), _patient(sys.stderr, 2)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 (the whole process uses it)


def _patient(old: TextIO | None, descriptor: int) -> io.TextIOWrapper:
    """Buffer like Python: errors unbuffered, the rest by lines on a terminal and in blocks elsewhere."""
    if old is not None:
        with contextlib.suppress(OSError, ValueError):
            old.flush()
    raw = _Patient(descriptor, "w", closefd=False)
    of_errors = descriptor == 2
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(old, "encoding", None) or "utf-8",
        errors="backslashreplace" if of_errors else "replace",  # a terminal without a letter ends no job
        line_buffering=of_errors or raw.isatty(),
    )


def _to_nowhere(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def run_program(name: str, main: Callable[[], int]) -> NoReturn:
    """The outermost call of a program: it ends with what ``main`` returns; an ``OSError`` is one line."""
    secure()
    try:
        exit_code = main()
    except OSError as error:
        exit_code = print_error(name, error, FAILED)
    sys.exit(exit_code)
