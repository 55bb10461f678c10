"""The cures of stragglers besides strategies, and their prices: the log without those stragglers (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

from analysis.logs.step_log import PER_ROW, RELATIVE, StepLog
from analysis.measures.named_units import SlowUnit
from analysis.measures.phases import runs
from analysis.measures.ranking import Ranked, Saved, ranked_cure, saved_per_step
from analysis.measures.rent_or_buy import restart_after
from analysis.measures.slow_steps import Floats
from analysis.measures.slow_units import GAP
from analysis.measures.straggling import Straggling, block_of
from analysis.reports.comparing import Sheet
from analysis.reports.console import seconds_text
from analysis.reports.remedies import NOTHING, Remedy

MOST = 5
"""So many units have a cure each."""
LEAST_FRAC = 0.001
"""A change that saves less of the job's time is no cure."""
LEAST_SCATTERED = 0.01
"""Slow steps of ever other ranks are mentioned if they cost so much of the time."""


CHECKPOINTS, ALIGN, BALANCE = "write checkpoints in the background", "align the pauses", "balance the work of steps"
MOVED = "loading, checkpoints or evaluations elsewhere or in the background"
ASSUMES = {
    "replace": "the other hardware is as quick as the median rank, and the slowness stays behind",
    "repair": "the ranks then send as quickly as the median rank",
    "move": "the ranks then load as quickly as the median rank",
    "write": "a checkpoint or an evaluation then delays no step",
    "align": "all these ranks pause in the same step, and the others wait for the longest of their pauses",
    "balance": "ranks differ within a step because their batches do; jitter of devices stays, so it is a maximum",
}
"""Assumptions of cures, each by the first word of a cure."""
RULE = (
    "restart or wait: restart a straggler when it has cost as much as a restart; both together then cost at most twice "
    "as much as the best decision in hindsight"
)


class Cure(NamedTuple):
    """Its row in the ranking, its words, what it saves while its cause is there, and of which rows that follows."""

    row: Ranked
    remedy: Remedy
    saved: Saved
    rows: str


def cures(log: StepLog, found: Straggling, restart_s: float) -> list[Cure]:
    """A cure for every cause that was found and continues; the causes are units, pauses, and work of unequal size.

    Args:
        log: whose steps are numbered.
        found: its stragglers.
        restart_s: seconds that a restart costs the job.
    """
    units = [unit for unit in found.units if unit.course.kind != "once"]
    made = [_of_unit(log, found, unit, restart_s) for unit in units[:MOST] if unit.saves_frac >= LEAST_FRAC]
    block, steps = block_of(found.found.slow), _steps_text(log, 0, len(log.steps))
    if len(units) > 1:
        loading = all(unit.part == "loading" for unit in units)
        name = f"{'move the loading of' if loading else 'cure'} all {len(units)} stragglers"
        needs = MOVED if loading else f"what each of the {len(units)} needs; one restart ({restart_s:g} s)"
        saved_s, cost_s = found.saved_s(units), 0.0 if loading else restart_s
        made.append(_cure(log, found, name, saved_s, needs, f"all of them, {steps}", block, cost_s))
    if found.pauses.period is not None and found.pauses.seconds >= LEAST_FRAC * found.actual_s:
        needs = "asynchronous checkpoints, fewer of them, or fewer evaluations"
        rows = f"the {found.pauses.count} pauses of all ranks"
        made.append(_cure(log, found, CHECKPOINTS, found.late.pause_s, needs, rows, found.pauses.period))
    if (pausing := found.staggered) and pausing.saved_s.sum() >= LEAST_FRAC * found.actual_s:
        needs = "a collection that the training loop starts, every so many steps, at all ranks"
        rows = f"{int(pausing.cells.sum())} pauses of {len(pausing.members)} ranks"
        made.append(_cure(log, found, ALIGN, pausing.saved_s, needs, rows, max(block, pausing.period_steps)))
    if found.uneven and found.balanced_s.sum() >= LEAST_FRAC * found.actual_s:
        needs = "sequences packed to one length, bucketed by length, or divided by load instead of by count"
        made.append(_cure(log, found, BALANCE, found.balanced_s, needs, f"all ranks, {steps}", block))
    return made


def unpriced_lines(log: StepLog, found: Straggling) -> list[str]:
    """A line for every cause that was found and has no price, with the reason."""
    lines = [
        f"{unit.group.name}: cannot be priced, because it was slow once and is not any more"
        for unit in found.units
        if unit.course.kind == "once" and not _continues(log, unit)
    ]
    if log.data_s is None and any(action(unit).startswith("replace") for unit in found.units):
        lines.append("moving a loader: cannot be priced, because the log has no seconds of loading")
    if found.scattered_frac >= LEAST_SCATTERED and not found.uneven:
        lines.append("slow steps of changing ranks: cannot be priced, because the log does not say what they share")
    if found.pauses.period is None and found.pauses.seconds >= LEAST_SCATTERED * found.actual_s:
        lines.append("long steps of all ranks: cannot be priced, because the log does not say what all ranks wait for")
    return lines


def restart_lines(log: StepLog, found: Straggling, restart_s: float, known_from: str) -> list[str]:
    """Restart now or wait, for every unit that a restart cures and that is slow at the end of the log: rent or buy.

    ``known_from``: how the seconds of a restart are known.
    """
    units = [unit for unit in found.units if _continues(log, unit) and not action(unit).startswith("move")]
    if units and log.job.get(RELATIVE):
        return ["restart or wait: cannot be priced, because the times of the log have no unit"]
    lines = [line for unit in units if (line := _restart_line(log, unit, restart_s, known_from))]
    return [*lines, RULE] if lines else []


def _restart_line(log: StepLog, unit: SlowUnit, restart_s: float, known_from: str) -> str:
    begin, _ = runs(unit.when, GAP)[-1]
    lost_s = unit.saved_s[begin:]
    total_s, after = float(lost_s.sum()), restart_after(lost_s, restart_s)
    lost = f"{seconds_text(total_s)} s were lost since step {log.steps[begin]}"
    price = f"than a restart costs ({restart_s:g} s, {known_from})"
    if after is not None:
        return (
            f"{unit.group.name}: restart now: {lost}, more {price}; it was due at step {log.steps[begin + after - 1]}"
        )
    if total_s <= 0:
        return ""
    left_s, step_s = restart_s - total_s, float(lost_s.mean()) / log.job.get(PER_ROW, 1)
    more = f"{seconds_text(left_s)} s more ({left_s / step_s:,.0f} steps like these)"
    return f"{unit.group.name}: wait: {lost}, less {price}; restart after {more}"


def _continues(log: StepLog, unit: SlowUnit) -> bool:
    """Whether the unit was slow when the log ended."""
    return runs(unit.when, GAP)[-1][1] >= len(log.steps) - GAP


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


def price_sheet(made: Sequence[Cure]) -> Sheet:
    """A row per cure, in the order of what they save."""
    head = ("cure", "saves s per step", "95 % interval", "saves s per hour", "from")
    return Sheet(head, [_price_row(one) for one in sorted(made, key=lambda one: -one.saved.hour_s)])


def assumed_lines(made: Sequence[Cure]) -> list[str]:
    """The assumptions of prices, a line per kind of cure."""
    kinds = dict.fromkeys(one.row.strategy.split()[0] for one in made)
    return [f"assumed, to {kind}: {ASSUMES[kind]}" for kind in kinds if kind != "cure"]


def _price_row(one: Cure) -> tuple[str, ...]:
    step_s, low_s, high_s, hour_s = one.saved
    interval = f"[{low_s:.3g}, {high_s:.3g}]" if isfinite(high_s - low_s) else ""
    return (one.row.strategy, f"{step_s:.3g}", interval, f"{hour_s:.0f}", one.rows)


def _of_unit(log: StepLog, found: Straggling, unit: SlowUnit, restart_s: float) -> Cure:
    what = action(unit)
    needs = {
        "repair": f"another card, cable or switch port; a restart ({restart_s:g} s)",
        "replace": f"healthy hardware in its place, or a restart of it ({restart_s:g} s)",
        "move": MOVED,
    }[what.split()[0]]
    cost_s = 0.0 if what.startswith("move") else restart_s
    since, until = unit.course.since, unit.course.until
    rows = f"{unit.part or 'times'} of {unit.group.name}, {_steps_text(log, since, until)}"
    return _cure(log, found, what, unit.saved_s, needs, rows, block_of(found.found.slow), cost_s, slice(since, until))


def _cure(
    log: StepLog,
    found: Straggling,
    name: str,
    saved_s: Floats,
    needs: str,
    rows: str,
    block: int,
    cost_s: float = 0.0,
    span: slice = slice(None),
) -> Cure:
    length_s = found.late.length_s
    every = log.job.get(PER_ROW, 1)
    saved = saved_per_step(length_s[span] / every, saved_s[span] / every, block)
    return Cure(ranked_cure(name, length_s, saved_s, cost_s, block), Remedy(NOTHING, needs), saved, rows)


def _steps_text(log: StepLog, since: int, until: int) -> str:
    return f"steps {log.steps[since]} to {log.steps[until - 1]}"
