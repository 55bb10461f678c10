"""Errors for people: what is wrong, where it was set, what to do; and how a program says so."""

from __future__ import annotations

import errno
import re
import sys
from typing import NoReturn

FAILED, REFUSED, NO_SPACE, INTERRUPTED = 1, 2, 74, 130
"""Exit codes: it went wrong; what was asked for is of no use, and nothing was begun; a full disk (``EX_IOERR``);
Ctrl-C."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
"""All that numpy says of it."""


class ConfigError(ValueError):
    """A setting that cannot be used. The message is one line: the setting, its value, the cure."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def is_full(error: BaseException) -> bool:
    """Whether there was no room for what was to be written: the disk, a quota or ``ulimit -f``."""
    if not isinstance(error, OSError):
        return False
    return error.errno in _FULL or (error.errno is None and _SHORT_WRITE.fullmatch(str(error)) is not None)


def no_space(error: OSError, where: object = "") -> str:
    """One line about it, for people. ``where``: what was written, if the error does not know its file."""
    return f"{error.filename or where or 'a file'}: {(error.strerror or str(error)).lower()}; make room and start again"


def no_process(error: BaseException) -> str:
    """One line about a process or thread that could not be started; empty for an error about something else."""
    threads = isinstance(error, RuntimeError) and "start new thread" in str(error)
    if not threads and not (isinstance(error, OSError) and error.errno in (errno.EAGAIN, errno.ENOMEM)):
        return ""
    why = "no new thread" if threads else (error.strerror or "").lower()  # type: ignore[attr-defined]
    return f"cannot start another process or thread: {why}; allow more of them (ulimit -u, pids.max), or use fewer"


def refuse(message: str) -> NoReturn:
    """In the place of ``ArgumentParser.error``, which would print the whole usage."""
    raise ConfigError(message)


def told(program: str, problem: object, exit_code: int = REFUSED, *, where: object = "") -> int:
    """One line on standard error; returns the exit code, that of a full disk for one.

    ``where``: of an ``OSError`` that does not know its file.
    """
    text = str(problem)
    if isinstance(problem, OSError) and is_full(problem):
        text, exit_code = no_space(problem, where), NO_SPACE
    elif isinstance(problem, BlockingIOError | RuntimeError) and (words := no_process(problem)):
        text = words
    elif isinstance(problem, OSError) and problem.strerror and (file := problem.filename or where):
        text = f"{file}: {problem.strerror.lower()}"
    print(f"{program}: {' '.join(text.split())}", file=sys.stderr)
    return exit_code
