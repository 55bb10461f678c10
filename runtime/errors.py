"""Errors for people: what is wrong, where it was set, what to do; and how programs print them."""

from __future__ import annotations

import errno
import re
import signal
import sys
from pathlib import Path
from typing import NoReturn

from reading.harmless import harmless

FAILED, REFUSED, NO_SPACE, DEVICE_FULL = 1, 2, 74, 75
"""Exit codes: failure; a refused request, before anything was started; a full disk (``EX_IOERR``); a device without
memory for a task (``EX_TEMPFAIL``)."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DEVICE_FULL = re.compile(
    r"CUDA.*out of memory|CU(BLAS|DNN)_STATUS_(ALLOC_FAILED|NOT_INITIALIZED)",
    re.IGNORECASE,
)
"""Libraries say neither how much they wanted nor always that it was memory: handles that cannot be made have none."""
_UNLOADED = re.compile(r"failed to map segment|cannot allocate memory", re.IGNORECASE)
_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
"""All that numpy's message says about a full disk."""


class ConfigError(ValueError):
    """A setting that cannot be used. The message is one line: the setting, its value, the cure."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class Interrupted(KeyboardInterrupt):
    """Somebody wants the program to end: the signal ``number`` came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def print_interrupted(program: str, kept: str, error: KeyboardInterrupt) -> int:
    """Print the line about what is kept and how to continue; returns the exit code, 128 + signal."""
    number = error.number if isinstance(error, Interrupted) else signal.SIGINT
    return print_error(program, f"interrupted; {kept}", 128 + number)


def is_full(error: BaseException) -> bool:
    """Whether the error means that there was no space to write: a full disk, a quota or ``ulimit -f``."""
    if not isinstance(error, OSError):
        return False
    return error.errno in _FULL or (error.errno is None and _SHORT_WRITE.fullmatch(str(error)) is not None)


def is_device_full(error: BaseException) -> bool:
    """Whether torch, TensorFlow or the driver says with this error that a GPU's memory does not suffice."""
    if type(error).__name__ == "ResourceExhaustedError":  # TensorFlow's, which may not be imported here
        return True
    return isinstance(error, RuntimeError) and _DEVICE_FULL.search(str(error)) is not None


def no_space(error: OSError, where: object = "") -> str:
    """One line about a full disk. ``where``: what was being written, if the error does not name its file."""
    return f"{error.filename or where or 'a file'}: {(error.strerror or str(error)).lower()}; make room and start again"


def no_process(error: BaseException) -> str:
    """One line about a process or thread that could not be started; empty for any other error."""
    threads = isinstance(error, RuntimeError) and "start new thread" in str(error)
    if not threads and not (isinstance(error, OSError) and error.errno in (errno.EAGAIN, errno.ENOMEM)):
        return ""
    why = "no new thread" if threads else (error.strerror or "").lower()  # type: ignore[attr-defined]
    return f"cannot start another process or thread: {why}; allow more of them (ulimit -u, pids.max), or use fewer"


def no_memory(error: BaseException) -> str:
    """One line about memory that this process did not get, if only to load a library; empty for any other error."""
    unloaded = isinstance(error, ImportError) and _UNLOADED.search(str(error)) is not None
    if not unloaded and not isinstance(error, MemoryError):
        return ""
    why = f" ({error})" if str(error) else ""
    return f"not enough memory{why}; allow more of it (ulimit -v, the limit of a container), or use less"


def _lacking(problem: object) -> str:
    """One line about processes or memory that this process did not get; empty otherwise."""
    if isinstance(problem, BlockingIOError | RuntimeError):
        return no_process(problem)
    return no_memory(problem) if isinstance(problem, MemoryError | ImportError) else ""


def no_directory(path: Path | None) -> str:
    """Why a path that is no directory cannot be one: nothing is there, or a file."""
    return "is a file, not a directory" if path is not None and path.is_file() else "no such directory"


def refuse(message: str) -> NoReturn:
    """Refuse bad arguments in one line; replaces ``ArgumentParser.error``, which would print the whole usage."""
    unknown = message.startswith("unrecognized arguments")
    raise ConfigError(f"{message}; --help lists what there is" if unknown else message)


def print_error(program: str, problem: object, exit_code: int = REFUSED, *, where: object = "") -> int:
    """Print one line to standard error; returns the exit code, which is ``NO_SPACE`` for a full disk.

    ``where``: what was being written, for an ``OSError`` that does not name its file.
    """
    text = str(problem)
    if isinstance(problem, OSError) and is_full(problem):
        text, exit_code = no_space(problem, where), NO_SPACE
    elif words := _lacking(problem):
        text = words
    elif isinstance(problem, OSError) and problem.strerror and (file := problem.filename or where):
        text = f"{file}: {problem.strerror.lower()}"
    print(harmless(f"{program}: {' '.join(text.split())}"), file=sys.stderr)
    return exit_code
