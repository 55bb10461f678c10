"""Advice on a job as sentences, tables of text, and one page (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite, isnan
from pathlib import Path

from analysis.figures.names import shown_name
from analysis.figures.style import colour_of
from analysis.fitting.step_times import StepModel
from analysis.logs.step_log import StepLog
from analysis.measures.named_units import SlowUnit
from analysis.measures.ranking import Ranked
from analysis.measures.straggling import Straggling
from analysis.reports.columns import relative
from analysis.reports.comparing import Sheet
from analysis.reports.console import number_text, seconds_text
from analysis.reports.cures import (
    LEAST_SCATTERED,
    Cure,
    action,
    assumed_lines,
    price_sheet,
    restart_lines,
    unpriced_lines,
)
from analysis.reports.pages.document import document, figures_html, notes_html, numbers_html
from analysis.reports.pages.table import Cell, Head, table_html
from analysis.reports.remedies import REMEDIES, Remedy

DASH = "\N{EN DASH}"
MOST_BEST = 3
"""So many strategies are described in words."""
MOST_UNITS = 10
"""So many stragglers have a line each."""
LEAST_PAUSE = 0.005
"""Pauses of all ranks are mentioned if they take so much of the time."""
MOST_RANKS, FEW_RANKS = 20, 5
"""So many ranks are listed, the costliest first; on the console fewer where few are stragglers."""
NOBODY = "no host or rank is a straggler: none is slow more often than by chance"
CHANGING = (
    "no host or rank is a straggler: the slowest rank changes from step to step, perhaps because work is of unequal "
    "size, and that is what costs time"
)
UNEVEN = (
    "this variation costs {extra:.0%}; if samples are sequences of unequal length, pack them to one length, bucket "
    "them by length, or split every batch by load instead of by count"
)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """All results about a log; ``ranking`` is empty if nothing could be ranked.

    ``baseline_error``: relative error of the repeated present strategy's time; NaN: it was not repeated. ``restart_s``:
    the cost of replacing a host; ``restart_from``: how it is known. ``cures``: those that are no strategies; their rows
    are in the ranking, too.
    """

    log: StepLog
    present: str
    found: Straggling
    model: StepModel
    baseline_error: float
    restart_s: float = 0.0
    restart_from: str = "--restart-s"
    cures: Sequence[Cure] = ()
    ranking: Sequence[Ranked] = ()
    remarks: Sequence[str] = ()

    def remedy(self, name: str) -> Remedy:
        """Return the remedy of a strategy or a cure."""
        return {one.row.strategy: one.remedy for one in self.cures}.get(name) or REMEDIES[name]


def sentences(advice: Advice) -> list[str]:
    """Say what stragglers cost, and name them."""
    found, model = advice.found, advice.model
    interval = "" if isnan(found.low) else f" [{found.low:.2f}, {found.high:.2f}]"
    lines = [
        f"{advice.log.num_ranks:,} ranks, {model.steps:,} steps, {seconds_text(found.actual_s)} s in all with "
        f"{advice.present}",
        f"usually a rank works {model.usual_s:.4g} s per step (jitter {model.sigma:.1%}); messages take "
        f"{model.message_s:.3g} s, and the barrier {model.barrier_s:.3g} s more",
        f"the job takes {found.slowdown:.2f}{interval} times as long as if all ranks were like the median rank of each "
        f"step; without slow steps that would be {found.without_slow:.2f}, by jitter alone",
    ]
    uneven = [UNEVEN.format(extra=found.without_slow - 1.0)] if found.uneven else []
    if not found.units:
        uneven = [CHANGING, *uneven] if uneven else [NOBODY]
    others = [*staggered_lines(advice), *scattered_lines(advice), *pause_lines(advice)]
    return [*lines, *unit_lines(advice), *uneven, *others]


def price_lines(advice: Advice) -> list[str]:
    """The assumptions of prices, the causes without a price, and whether to restart now."""
    log, found = advice.log, advice.found
    restarts = restart_lines(log, found, advice.restart_s, advice.restart_from)
    return [*assumed_lines(advice.cures), *unpriced_lines(log, found), *restarts]


def staggered_lines(advice: Advice) -> list[str]:
    """A line for pauses that ranks make at one period, each in its own phase."""
    pausing = advice.found.staggered
    if pausing is None:
        return []
    every = f"{pausing.period:.3g} s" if pausing.unit == "s" else f"{pausing.period:.0f} steps"
    cost_frac = float(pausing.cost_s.sum()) / advice.found.actual_s
    return [
        f"{len(pausing.members)} ranks pause every {every} for {pausing.length_s:.3g} s, each in its own phase, "
        f"as with garbage collection; that costs {cost_frac:.1%}, and no rank is blamed for it"
    ]


def unit_lines(advice: Advice) -> list[str]:
    """A line for each slow unit: its name, since when, in which part, and the savings of its cure."""
    found = advice.found
    lines = [_unit_line(advice, unit) for unit in found.units[:MOST_UNITS]]
    if len(found.units) > MOST_UNITS:
        lines.append(f"and {len(found.units) - MOST_UNITS} more stragglers, which cost less (ranks.csv)")
    if len(found.units) > 1:
        together = float(found.saved_s(found.units).sum()) / found.actual_s
        lines.append(f"curing all of these saves {together:.1%}")
    return lines


def scattered_lines(advice: Advice) -> list[str]:
    """State the cost of slow steps that belong to no straggler: replacing a machine does not avoid it."""
    cost_frac = advice.found.scattered_frac
    if cost_frac < LEAST_SCATTERED:
        return []
    more = " more" if advice.found.units else ""
    return [f"slow steps of changing ranks cost {cost_frac:.1%}{more}; no single rank is to blame for them"]


def _unit_line(advice: Advice, unit: SlowUnit) -> str:
    steps, course = advice.log.steps, unit.course
    begin_s = float(advice.found.late.length_s[: course.since].sum())
    end = steps[course.until - 1]
    rarely = f"in {unit.slow_frac:.1%} of the steps, {course.events} times from step {steps[course.since]} to {end}"
    when = {
        "persistent": f"since step {steps[course.since]} ({seconds_text(begin_s)} s)" if course.since else "throughout",
        "periodic": f"every {course.period} steps ({course.events} times, the first at step {steps[course.since]})",
        "once": f"once, from step {steps[course.since]} ({seconds_text(begin_s)} s) to {end}",
        "transient": f"now and then, {rarely}",
    }[course.kind]
    part = f" (in {unit.part})" if unit.part else ""
    verb, _, what = action(unit).partition(" ")
    saves = f"{verb.removesuffix('e')}ing {what} saves {unit.saves_frac:.1%}"
    if course.kind == "once":
        saves = f"that cost {unit.saves_frac:.1%}"
    if course.kind == "persistent" and advice.restart_s and unit.saves_frac:
        rate = float(unit.saved_s.sum() / advice.found.late.length_s[course.since :].sum())
        saves += f" (a restart of {advice.restart_s:g} s pays off after {seconds_text(advice.restart_s / rate)} s)"
    return f"{course.kind} straggler: {unit.group.name}, {unit.factor:.2f} times as long{part} {when}; {saves}"


def pause_lines(advice: Advice) -> list[str]:
    """Steps that were long for all ranks, so that none is to blame."""
    pauses, total = advice.found.pauses, advice.found.actual_s
    if not pauses.count or pauses.seconds < LEAST_PAUSE * total:
        return []
    each = f"{pauses.count} times, {pauses.seconds / pauses.count:.3g} s each, {pauses.seconds / total:.1%} of the time"
    if pauses.period is None:
        return [f"some steps are long although no single rank is late ({each}): all ranks wait for something shared"]
    return [
        f"all ranks pause every {pauses.period} steps ({each}): checkpoints or evaluations; no rank is blamed for them"
    ]


def best_lines(advice: Advice) -> list[str]:
    """Say what the fastest strategies and cures change and need."""
    best = _faster(advice)
    if not best:
        return ["nothing that was tried is faster than what the job does now", *_too_short(advice)]
    remedies = [(one.strategy, advice.remedy(one.strategy)) for one in best[:MOST_BEST]]
    return [*(f"{name}: {remedy.changes}; needs {remedy.needs}" for name, remedy in remedies), *_too_short(advice)]


def _too_short(advice: Advice) -> list[str]:
    """A line for every cure whose restart takes longer than the cure saves in the log."""
    slower = [one.row.strategy for one in advice.cures if one.row.verdict == "slower"]
    end = f"in the {seconds_text(advice.found.actual_s)} s of this log; in a longer job it may pay off"
    return [
        f"{name}: slower, since a restart of {advice.restart_s:g} s costs more than it saves {end}" for name in slower
    ]


def _faster(advice: Advice) -> list[Ranked]:
    """Return those that the intervals show to be faster than the job's present way, the fastest first."""
    return [one for one in advice.ranking if one.verdict == "faster" and one.strategy != advice.present]


def worst_ranks(advice: Advice) -> Sheet:
    """The ranks of stragglers, and a few others where there are few of these."""
    return ranks_sheet(advice, max(FEW_RANKS, min(MOST_RANKS, int(advice.found.ranks["straggler"].sum()))))


def ranks_sheet(advice: Advice, most: int = MOST_RANKS) -> Sheet:
    """A row per rank, the costliest first."""
    found = advice.found
    rows = found.ranks.assign(usual=found.found.base_s / found.found.usual_s)
    rows = rows.sort_values(["straggler", "share", "alone_saves_frac"], ascending=False).head(most)
    optional = [name for name in ("host", "part") if (rows[name] != "").any()]
    head = ("rank", *optional, "straggler", "slow steps", "when slow", "else", "share of lost time", "curing it alone")
    texts = [
        (
            str(row["rank"]),
            *(str(row[name]) for name in optional),
            str(row["kind"]),
            f"{row['slow_frac']:.1%}",
            DASH if isnan(row["factor"]) else f"{row['factor']:.2f} x",
            f"{row['usual']:.2f} x",
            f"{row['share']:.1%}",
            f"{row['alone_saves_frac']:.1%}",
        )
        for _, row in rows.iterrows()
    ]
    return Sheet(head, texts)


def in_numbers(advice: Advice) -> Sheet:
    """A row per strategy, the fastest first."""
    head = (
        *("strategy", relative("JCT", advice.present), "95 % interval", "verdict", "predicted s"),
        *("staleness", "update", "dropped"),
    )
    return Sheet(head, [_ranking_row(one, advice.present) for one in advice.ranking])


def ranking_sheet(advice: Advice) -> Sheet:
    """The same, with what each changes in training and what it needs."""
    numbers, remedies = in_numbers(advice), [advice.remedy(one.strategy) for one in advice.ranking]
    rows = [(*row, *remedy) for row, remedy in zip(numbers.rows, remedies, strict=True)]
    return Sheet((*numbers.head, "what changes in training", "what it needs"), rows)


def _ranking_row(one: Ranked, present: str) -> tuple[str, ...]:
    interval = "" if isnan(one.low) else f"[{number_text(one.low, 2)}, {number_text(one.high, 2)}]"
    return (
        one.strategy,
        number_text(one.ratio, 2),
        interval,
        "now" if one.strategy == present else one.verdict,
        seconds_text(one.jct_s) if isfinite(one.jct_s) else "never",
        number_text(one.staleness, 2),
        f"{one.update_frac:.0%}",
        f"{one.dropped_frac:.1%}",
    )


def check_sentence(advice: Advice, limit: float) -> str:
    """How well the present strategy was repeated."""
    error = advice.baseline_error
    words = f"check: {advice.present}, repeated on the virtual clock, takes {1 + error:.3f} times the logged time"
    return words if abs(error) <= limit else f"{words}, off by more than {limit:.0%} (--limit): nothing is ranked"


def page(advice: Advice, limit: float, figure: Path | None = None, version: str = "") -> str:
    """The page with everything, as HTML; ``version``: of Stragglab."""
    items = "".join(f"<li>{escape(_say(line))}.</li>" for line in _lines(advice, limit))
    body = f'<h2>What stragglers cost</h2><ul class="lead">{items}</ul>'
    if lines := price_lines(advice):
        items = "".join(f"<li>{escape(line[:1].upper() + line[1:])}.</li>" for line in lines)
        body += f"<h2>Prices of cures</h2>{_prices(advice)}<ul>{items}</ul>"
    if advice.ranking:
        body += f'<h2>Strategies and cures, predicted</h2>{_strategies(advice)}<p class="note">{escape(READING)}</p>'
    body += f'<h2>Ranks</h2>{_ranks(advice)}<p class="note">{escape(RANKS_READ)}</p>'
    if figure is not None:
        body += f"<h2>Figure</h2>{figures_html([(figure, 'Who was slow when')])}"
    body += notes_html([*advice.log.remarks, *advice.remarks], "Remarks")
    name = advice.log.source.rstrip("/").rpartition("/")[2]
    return document(f"Advice on {name}", f"{READS} {version}".strip(), body, lead=numbers_html(_numbers(advice)))


def _say(line: str) -> str:
    """A line as a sentence of the page: strategies have the names that figures give them."""
    name, colon, rest = line.partition(": ")
    return f"{shown_name(name)}{colon}{rest}" if name in REMEDIES else line[:1].upper() + line[1:]


def _numbers(advice: Advice) -> dict[str, tuple[str, str]]:
    found = advice.found
    numbers = {
        "ranks": (f"{advice.log.num_ranks}", ""),
        "steps": (f"{advice.model.steps}", ""),
        f"logged, with {shown_name(advice.present)}": (seconds_text(found.actual_s), "s"),
        "slowed by stragglers": (f"{found.slowdown:.2f}", "times"),
    }
    if best := _faster(advice):
        numbers["fastest, predicted"] = (number_text(best[0].ratio, 2), f"of that, {shown_name(best[0].strategy)}")
    return numbers


def _strategies(advice: Advice) -> str:
    """The ranking: interval below the ratio, and a phone shows what decides."""
    heads = [Head("strategy", kind="word"), Head(f"time / {shown_name(advice.present)}"), Head("verdict", kind="word")]
    heads += [Head("predicted (s)", "middle"), Head("what changes in training", "middle", "text")]
    heads += [Head("what it needs", "middle", "text")]
    heads += [Head("staleness", "more"), Head("update", "more"), Head("dropped", "more")]
    rows: list[list[Cell | str]] = []
    for one in advice.ranking:
        name, ratio, interval, verdict, predicted, *more = _ranking_row(one, advice.present)
        cells: list[Cell | str] = [Cell(shown_name(name), colour=colour_of(name)), f"{ratio} {interval}".strip()]
        rows.append([*cells, verdict, predicted, *advice.remedy(one.strategy), *more])
    return table_html(heads, rows)


def _prices(advice: Advice) -> str:
    sheet = price_sheet(advice.cures)
    places = {"cure": Head("cure", kind="word"), "95 % interval": Head("95 % interval", "middle")}
    places |= {"from": Head("from", "middle", "text")}
    return table_html([places.get(name, Head(name)) for name in sheet.head], sheet.rows) if sheet.rows else ""


def _ranks(advice: Advice) -> str:
    sheet = ranks_sheet(advice)
    places = {"rank": Head("rank", kind="word"), "straggler": Head("straggler", kind="word")}
    places |= {name: Head(name, "more", "word") for name in ("host", "part")}
    places |= {name: Head(name, "middle") for name in ("when slow", "else", "share of lost time")}
    return table_html([places.get(name, Head(name)) for name in sheet.head], sheet.rows)


RANKS_READ = (
    "Slow steps: the share of its steps that were slow. When slow, else: how long its steps took then, relative to a "
    "usual step (a dash: it was never slow). Share of lost time: in the steps in which it was the last rank. Curing it "
    "alone: what the job would save, of its time, if only this rank were like the median."
)
READS = (
    "From the step times that the job logged: what stragglers cost, and how long it would take under other strategies."
)
READING = (
    "Ratios and seconds are of the logged steps. A strategy is repeated in the whole logged history; a cure is the log "
    "without what it cures, plus a restart. The 95 % interval says how far chance moves the ratio (jitter, and when "
    "short slow phases fell); a long slow phase counts as given. Staleness: mean, in updates. Update: its samples, "
    "relative to the present batch. Dropped: share of all gradients. Time is predicted, learning is not: compare "
    "accuracy before you choose what changes training."
)


def _lines(advice: Advice, limit: float) -> list[str]:
    check = [] if isnan(advice.baseline_error) else [check_sentence(advice, limit)]
    best = best_lines(advice) if advice.ranking else []
    return [*sentences(advice), *check, *best]
