"""The time that the decisions of a job's strategy took (frames and seconds of one run).

Four different times: ``decide_s`` and ``choice_s`` are measured on the machine of the run, ``scoring_s`` is on the
job's clock (modelled on a virtual one), and ``paused_s`` is what settings say that a decision takes.
"""

from __future__ import annotations

from math import nan
from statistics import median

import msgspec

from analysis.records.load import Run
from strategies.protocol import Score, Scored, Wake

PAUSES = ("decided", "switched")
"""Tags of the timers that end a pause: STAR's decisions, Sync-Switch's switches."""


def decide_s(run: Run) -> float:
    """Seconds that the strategy computed in all of its answers; NaN where that was not measured.

    Live runs measure it, virtual ones with ``runtime.decisions=measured``.
    """
    total_s = float(run.tables.decisions["decide_us"].sum()) * 1e-6
    return total_s if total_s > 0 else nan


def choice_s(run: Run) -> float:
    """Seconds of an answer in which a mode was chosen, the median of them; NaN where none was, or was not measured.

    STAR's figure 28 times its heuristic and its model, not what happens between two choices (section V-D).
    """
    found_us, chosen = [], 0
    for line in run.notable_lines:
        if b'"decisions"' in line.state:
            number = int(msgspec.json.decode(line.state)["decisions"])
            if number > chosen and line.decide_us > 0:
                found_us.append(line.decide_us)
            chosen = number
    return median(found_us) * 1e-6 if found_us else nan


def scoring_s(run: Run) -> float:
    """Seconds from the order to score a gradient to its score, summed over gradients; a lost score does not count."""
    asked: dict[int, float] = {}
    total_s = 0.0
    for line in run.notable_lines:
        if isinstance(line.event, Scored):
            total_s += line.t - asked.pop(line.event.grad.id, line.t)
        asked |= {command.grad: line.t for command in line.commands if isinstance(command, Score)}
    return total_s


def decision_s(run: Run) -> float:
    """Time of all decisions: computing them, and the scores on which they wait."""
    return decide_s(run) + scoring_s(run)


def pauses(run: Run) -> list[float]:
    """Seconds of every pause for a decision or a switch, as ordered."""
    wakes = [(line.t, command) for line in run.notable_lines for command in line.commands if isinstance(command, Wake)]
    return [wake.at_s - t for t, wake in wakes if wake.tag in PAUSES]


def paused_s(run: Run) -> float:
    """Seconds in which no worker began to compute because of a decision or a switch."""
    return sum(pauses(run), 0.0)
