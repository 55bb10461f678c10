"""The program, ``run.py`` or ``stragglab``: a command, or else jobs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from runtime.config.project import adopt
from runtime.errors import ConfigError, Interrupted, print_error, print_interrupted
from runtime.house import NAME, module_name
from runtime.importing import importing
from stragglab.commands import COMMANDS, FLAGS, announcement


def program() -> int:
    """All of it; returns the exit code."""
    try:
        given = adopt(sys.argv[1:])
        word = given[0] if given else ""
        if word in COMMANDS and sys.stderr.isatty():
            print(announcement(word), file=sys.stderr)
        if word in COMMANDS or word in FLAGS:
            with importing():
                command = import_module(module_name(FLAGS.get(word, f"stragglab.commands.{word}")))
            return perform(word, command, given[1:])
        from stragglab.commands.run import compose

        return compose(given)
    except ConfigError as error:
        return print_error(NAME, error)


def perform(word: str, command: ModuleType, given: Sequence[str]) -> int:
    """Do what a word asks for; a signal ends it with a line about what is kept, and it cleans up what it has begun."""

    def end(number: int, _frame: object) -> None:
        raise Interrupted(number)

    before = [signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        exit_code: int = command.main(given)
    except KeyboardInterrupt as error:
        return print_interrupted(word, getattr(command, "KEPT", "the same command starts again"), error)
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)
    return exit_code
