"""How a signal ends a program that has begun nothing yet: with a line, and no traceback."""

from __future__ import annotations

import os
import signal

kept = ["nothing was started"]
"""Messages for a signal that ends the program at once, on the state it leaves and how to continue: the last counts."""


def quit_with_a_line() -> None:
    """From here on, where a job has no handlers of its own: there is nothing to clean up then."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _quit)


def _quit(number: int, _frame: object) -> None:
    os.write(2, f"run.py: interrupted; {kept[-1]}\n".encode())
    os._exit(128 + number)
