"""Errors for people: what is wrong, where it was set, what to do; and how a program says so."""

from __future__ import annotations

import sys
from typing import NoReturn

FAILED, REFUSED, INTERRUPTED = 1, 2, 130
"""Exit codes: it went wrong; what was asked for is of no use, and nothing was begun; Ctrl-C."""


class ConfigError(ValueError):
    """A setting that cannot be used. The message is one line: the setting, its value, the cure."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def refuse(message: str) -> NoReturn:
    """In the place of ``ArgumentParser.error``, which would print the whole usage."""
    raise ConfigError(message)


def told(program: str, problem: object, exit_code: int = REFUSED, *, where: object = "") -> int:
    """One line on standard error; returns the exit code. ``where``: of an ``OSError`` that does not know its file."""
    text = str(problem)
    if isinstance(problem, OSError) and problem.strerror and (file := problem.filename or where):
        text = f"{file}: {problem.strerror.lower()}"
    print(f"{program}: {' '.join(text.split())}", file=sys.stderr)
    return exit_code
