"""Standard streams: a job continues without a reader, and nothing that is printed makes the terminal obey.

``2>&1 | head -1`` leaves a pipe without a reader, ``>/dev/full`` a full file, ``2>&-`` no stream at all, whose number
the next opened file would get: output would then end up in the record.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn, TextIO

from reading.harmless import HARMLESS, harmless
from runtime.errors import FAILED, no_memory, print_error

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


class _Harmless(io.TextIOWrapper):
    """Prints what programs would make a terminal obey as it is written in a program; rich's own codes pass."""

    def write(self, text: str, /) -> int:
        return super().write(harmless(text))

    @cached_property
    def rich_proxied_file(self) -> _ForRich:
        """Return the file that rich writes to instead of this stream."""
        _make_rich_harmless()
        return _ForRich(self)


class _ForRich:
    """A stream to which rich writes its own codes."""

    def __init__(self, stream: _Harmless) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        return io.TextIOWrapper.write(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _make_rich_harmless() -> None:
    """Let the texts that rich shows be harmless, too: it takes a few control characters out of them by itself."""
    from rich.control import _CONTROL_STRIP_TRANSLATE

    _CONTROL_STRIP_TRANSLATE.update(HARMLESS)


def secure() -> None:
    """Make output safe whatever happens to the standard streams; call it before any file is opened."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    while nowhere < NUM_STANDARD:  # descriptors that were closed are filled from the lowest up
        os.set_inheritable(nowhere, True)
        nowhere = os.open(os.devnull, os.O_RDWR)
    os.close(nowhere)
    sys.stdout, sys.stderr = _patient(sys.stdout, 1), _patient(sys.stderr, 2)
    if "rich" in sys.modules:  # else when it asks where to write
        _make_rich_harmless()
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 (the whole process uses it)


def _patient(old: TextIO | None, descriptor: int) -> _Harmless:
    """Buffer like Python: errors unbuffered, the rest by lines on a terminal and in blocks elsewhere."""
    if old is not None:
        with contextlib.suppress(OSError, ValueError):
            old.flush()
    raw = _Patient(descriptor, "w", closefd=False)
    of_errors = descriptor == 2
    return _Harmless(
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
    """The outermost call of a program: exits with ``main``'s code; an ``OSError``, or lack of memory, is one line."""
    secure()
    try:
        exit_code = main()
    except (OSError, MemoryError, ImportError) as error:
        if isinstance(error, ImportError) and not no_memory(error):
            raise
        exit_code = print_error(name, error, FAILED)
    sys.exit(exit_code)
