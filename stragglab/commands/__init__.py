"""The words of ``python run.py WORD``. A word is a file: its arguments and a call. ``run`` needs no word."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str | int, str]] = {
    "compare": ("compares runs, with intervals", "seconds", "the terminal; -o DIR: tables, figures and a page there"),
    "figures": ("draws the figures of records again", "seconds per run", "figures/ of each run"),
    "verify": (
        "checks that records are what they say",
        "seconds per run; --again: more",
        "the terminal",
    ),
    "replay": ("gives the recorded events to a fresh strategy", "seconds", "the terminal"),
    "story": ("tells what happened to a task, an update, a gradient or a job", "seconds", "the terminal"),
    "export": ("writes records for other tools", "seconds per run", "the places that it prints"),
    "advise": (
        "measures what stragglers cost a job, and tries what would help on the virtual clock",
        "about a minute, or three for a thousand ranks",
        "the terminal, and out/advice/NAME/advice.html",
    ),
    "calibrate": (
        "fits the virtual clock's costs to live runs",
        "seconds per run",
        "the file that it prints",
    ),
    "predictors": (
        "scores predictors of stragglers on records",
        "seconds to minutes per run",
        "prediction/ of the run, or out/prediction",
    ),
    "experiment": (
        "makes the missing runs of experiments, draws them and judges claims",
        "seconds to an hour; it counts its runs",
        "out/experiments/NAME, and the paper's page in docs/paper",
    ),
    "harm": (
        "times every strategy under every straggler on the virtual clock",
        30,
        "out/harm, and the page of --report",
    ),
    "fidelity": (
        "makes the same runs live and on the virtual clock, and compares them",
        "some 35 minutes for all strategies; keep the machine idle",
        "out/fidelity, and the page of --report",
    ),
    "injectors": (
        "measures what every injector of this machine achieves of what is requested",
        "ten minutes, two with --quick; keep the machine idle",
        "out/injectors, and the page of --report",
    ),
    "new": ("makes a project of your own", "a second", "the folder that you name"),
    "check": ("checks the strategies of a project", "10 to 35 s of processor time each", "the terminal"),
    "data": ("checks files of a data set and converts them", "seconds to minutes", "the folder of --data-dir"),
    "doctor": ("looks at what this machine can do for live runs", "seconds", "the terminal"),
    "cleanup": ("lists what killed programs have left; --reap removes it", "a second", "the terminal"),
}
"""For each word: what it does; how long that takes (a number: minutes on two processors, in proportion less on more);
where the result is."""
FLAGS = {"--version": "runtime.version"}
"""Programs of flags: Hydra would print this only after importing everything."""
MEASURED_ON = 2
"""Processors on which the times in minutes were measured."""


def announcement(word: str) -> str:
    """Return a command's first line on a terminal."""
    from stragglab.grids.forks import processors

    does, takes, into = COMMANDS[word]
    if isinstance(takes, int):
        there = processors()
        takes = f"about {max(round(takes * MEASURED_ON / there), 1)} min on {there} processors"
    return f"{word}: {does}; takes {takes}; result: {into}"
