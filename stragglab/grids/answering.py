"""How a script that makes records ends: its exit code, and one line if it could not do what it was asked."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from rich.console import Console

from analysis.records.load import RecordError
from runtime.errors import FAILED, REFUSED, ConfigError, print_error, print_interrupted
from runtime.live.machines.mechanisms import Look
from stragglab.grids.grid import JobFailed


def answer(
    program: str,
    parse: Callable[[], argparse.Namespace],
    work: Callable[[argparse.Namespace], int | None],
    *refusals: type[Exception],
) -> int:
    """The exit code of a script that parses its words and then works on what was asked.

    Args:
        program: its name, with which its line begins.
        parse: returns the arguments, with ``out``, the folder that is written.
        work: returns an exit code, or None for 0.
        refusals: errors about the input, besides errors of settings and records.
    """
    where = ""
    refused: tuple[type[Exception], ...] = (ConfigError, RecordError, *refusals)
    try:
        asked = parse()
        where = asked.out
        return work(asked) or 0
    except refused as error:
        return print_error(program, error, REFUSED)
    except JobFailed as error:
        return print_error(program, error, FAILED)
    except OSError as error:
        return print_error(program, error, where=where)
    except KeyboardInterrupt as error:
        return print_interrupted(program, "run the same command again to continue", error)


def lacks_gpu(device: str, look: Look, console: Console) -> bool:
    """Whether ``device`` is a GPU that ``look`` does not find; says so in one line, as nothing is measured then."""
    lack = look("gpu") if device == "cuda" else None
    if lack is not None:
        console.print(f"skipped: {lack.reason}", soft_wrap=True)
    return lack is not None
