"""What users type: ``python run.py WORD``. A word is a file: its arguments and a call. ``run`` needs no word."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str | int, str]] = {
    "compare": ("compares runs, with intervals", "a second for ten runs", "the terminal; -o DIR: tables and figures"),
    "figures": ("draws figures of records again", "seconds per run", "figures/ of each run; -o DIR: DIR"),
    "verify": (
        "checks whether records are what they say",
        "seconds per run; --again: as long as it ran",
        "the terminal",
    ),
    "replay": ("gives recorded events to a fresh strategy", "seconds", "the terminal"),
    "story": ("tells what happened to a task, an update or a job", "seconds", "the terminal"),
    "export": ("writes records for tools of others", "seconds per run", "the run's directory"),
    "advise": (
        "measures what stragglers cost a job, and runs what would help on the virtual clock",
        "a minute for a log of 10,000 iterations; more for more ranks",
        "out/advice/NAME/advice.html; -o DIR: DIR",
    ),
    "calibrate": ("fits the virtual clock's costs to live runs", "seconds per run", "runtime/fitted/costs/NAME.yaml"),
    "predictors": (
        "scores predictors of stragglers on records",
        "a minute for ten runs",
        "the terminal; -o DIR: tables",
    ),
    "experiment": (
        "makes the runs of an experiment that are missing, and judges claims",
        "seconds to an hour: --list says how many runs there are",
        "out/experiments/NAME, and its page in docs/paper",
    ),
    "harm": (
        "times every strategy under every straggler on the virtual clock",
        30,
        "out/harm; --report PAGE: the page",
    ),
    "fidelity": (
        "runs the same jobs live and on the virtual clock, and compares them",
        "20 minutes a grid; --from DIR: seconds",
        "out/fidelity; --report PAGE: the page",
    ),
    "injectors": (
        "measures what every injector achieves of what is requested",
        "ten minutes; --quick: two",
        "out/injectors; --report PAGE: the page",
    ),
    "new": ("makes a project of your own", "a second", "the folder that is named"),
    "check": ("checks the strategies of a project by the contract suite", "a minute per strategy", "the terminal"),
    "data": ("converts a data set", "seconds to minutes", "data/NAME"),
    "doctor": ("looks what this machine can do for live runs", "seconds", "the terminal"),
    "cleanup": ("lists what killed programs have left; --reap removes it", "a second", "the terminal"),
}
"""By word: what it does; how long that takes (a number: minutes on two processors,
and less on more); where the result is."""
FLAGS = {"--version": "runtime.version"}
"""Programs of flags: what Hydra would say only when all of it is imported."""
