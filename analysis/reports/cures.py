"""The cures of stragglers besides strategies, and their savings: the log without those stragglers (pure)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.measures.named_units import SlowUnit
from analysis.measures.ranking import Ranked, cured
from analysis.measures.straggling import Straggling, block_of
from analysis.reports.remedies import NOTHING, Remedy

MOST = 5
"""So many units have a cure each."""
LEAST_FRAC = 0.001
"""A change that saves less of the job's time is no cure."""


CHECKPOINTS = "write checkpoints in the background"


class Cure(NamedTuple):
    """Its row in the ranking, and its words."""

    row: Ranked
    remedy: Remedy


def cures(found: Straggling, restart_s: float) -> list[Cure]:
    """A cure for every unit that continues to be slow, for all of these together, and for pauses of all ranks.

    Args:
        found: the stragglers of a log.
        restart_s: seconds that a restart costs the job.
    """
    units = [unit for unit in found.units if unit.course.kind != "once" and unit.saves_frac >= LEAST_FRAC]
    made = [_of_unit(found, unit, restart_s) for unit in units[:MOST]]
    if len(units) > 1:
        needs = f"what each of the {len(units)} needs; one restart ({restart_s:g} s)"
        row = _row(found, f"cure all {len(units)} stragglers", found.saved_s(units), restart_s)
        made.append(Cure(row, Remedy(NOTHING, needs)))
    if found.pauses.period is not None and found.pauses.seconds >= LEAST_FRAC * found.actual_s:
        row = cured(CHECKPOINTS, found.late.length_s, found.late.pause_s, 0.0, found.pauses.period)
        made.append(Cure(row, Remedy(NOTHING, "asynchronous checkpoints, fewer of them, or fewer evaluations")))
    return made


def action(unit: SlowUnit) -> str:
    """Return the action that cures a unit."""
    name = unit.group.name.partition(" (")[0] if unit.group.form == "host" else unit.group.name
    if unit.part == "communication":
        return f"repair the network of {name}"
    if unit.part == "loading":
        return f"move the loading of {name}"
    if unit.course.kind == "periodic" and unit.group.members == (0,):
        return f"move periodic work off {name}"
    return f"replace {name}"


def _of_unit(found: Straggling, unit: SlowUnit, restart_s: float) -> Cure:
    what = action(unit)
    needs = {
        "repair": f"another card, cable or switch port; a restart ({restart_s:g} s)",
        "replace": f"healthy hardware in its place, or a restart of it ({restart_s:g} s)",
        "move": "loading, checkpoints or evaluations elsewhere or in the background",
    }[what.split()[0]]
    cost_s = 0.0 if what.startswith("move") else restart_s
    return Cure(_row(found, what, unit.saved_s, cost_s), Remedy(NOTHING, needs))


def _row(found: Straggling, name: str, saved_s: np.ndarray, restart_s: float) -> Ranked:
    return cured(name, found.late.length_s, saved_s, restart_s, block_of(found.found.slow))
