"""The command ``stragglab``, and ``python run.py``."""

from __future__ import annotations

from runtime.quitting import quit_with_a_line


def main() -> None:
    """Run the program; it ends the process with its exit code."""
    quit_with_a_line()  # importing the rest takes long enough for a Ctrl-C
    from runtime.house import NAME
    from runtime.run.streams import run_program
    from stragglab.program import program

    run_program(NAME, program)
