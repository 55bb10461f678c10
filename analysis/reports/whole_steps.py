"""The results for a log that does not tell ranks apart: what slow steps cost, since when, and in which part (pure)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from analysis.logs.step_log import OF_SLOWEST, PER_ROW, RELATIVE, Extremes, Floats, StepLog, without_first
from analysis.measures.levels import levels, warm_up
from analysis.measures.phases import period_of, runs
from analysis.measures.slow_steps import Bools
from analysis.reports.console import seconds_text
from analysis.reports.parts import part_lines

WORST = 0.1
"""Steps that take longer than the usual one by more than this part are counted as slow."""
TAIL = 0.95, 0.99
LEAST_PART, MOST_PARTS = 0.05, 5
"""A part of a step is mentioned if it takes so much of it."""
LEAST_VARIATION = 0.005
"""Longer and shorter steps are compared if they differ by so much, of the median step."""
NAMED_FRAC, FEWEST_NAMED = 0.5, 5
"""A rank is named if it is the slowest of so many of the steps, and in so many."""
SENDING = re.compile(r"sync|send|recv|reduce|gather|scatter|comm|wait|broadcast|nccl", re.IGNORECASE)
LOADING = re.compile(r"load|batch-generator|dataset", re.IGNORECASE)
MEANS = {
    "transfers": "transfers, the wait for other ranks included; whether a link or another rank is slow then, each "
    "rank's own times of computing would tell",
    "loading": "the loading of data by the rank that logged",
    "computing": "own work of the rank that logged; whether other ranks are as slow is not known",
    "slowest": "own work, the waits between stages of a pipeline included: slow ranks make these steps longer",
}


def whole_steps(log: StepLog) -> list[str]:
    """Say what slow steps cost, when they came, and what is known of the ranks that were slow."""
    warm = warm_up(log.own_s[:, 0], WORST)
    log = without_first(log, warm)
    seconds, steps = log.own_s[:, 0], log.steps
    found = levels(seconds, WORST)
    middles = [float(np.median(seconds[start:end])) for start, end in found]
    middle = min(middles)
    slow = seconds > (1.0 + WORST) * middle
    lost_frac = float((seconds[slow] - middle).sum() / seconds.sum())
    every, unit = log.job.get(PER_ROW, 1), "" if log.job.get(RELATIVE) else " s"
    rows = f"{len(seconds)} rows of {every} steps" if every > 1 else f"{len(seconds)} steps"
    usual = "median step takes" if len(found) == 1 else "usual step takes"
    return [
        *([f"the first steps get shorter and shorter: a warm-up of {warm}, left out below"] if warm else []),
        f"{rows}, {seconds_text(seconds.sum())}{unit} in all; the {usual} {middle / every:.4g}{unit}",
        f"{slow.mean():.1%} of the {'rows' if every > 1 else 'steps'} took more than {1 + WORST:g} times as long; "
        f"their excess is {lost_frac:.1%} of the time (by a slow rank or a checkpoint: this log cannot tell)",
        f"without these slow steps the job would take {1 - lost_frac:.3f} of its time, at best",
        *_changes(steps, found, [one / every for one in middles], unit),
        _tail(seconds, middle),
        *(_periods(steps, slow) if len(found) == 1 else []),
        *(_parts(log) or ([] if log.extremes else part_lines(log))),
        *_extremes(log),
    ]


def _changes(steps: Sequence[int], found: Sequence[tuple[int, int]], middles: Sequence[float], unit: str) -> list[str]:
    """A line for each change of the level."""
    lines = []
    for place in range(1, len(found)):
        (earlier, start), (_, end), before, after = found[place - 1], found[place], middles[place - 1], middles[place]
        why = f"; at step {steps[start]} a link, a node or a setting changed" if after > before else ""
        lines.append(
            f"from step {steps[start]} to {steps[end - 1]} the median step takes {after:.4g}{unit}, "
            f"{after / before:.2f} times as long as before ({before:.4g}{unit} from step {steps[earlier]} to "
            f"{steps[start - 1]}){why}"
        )
    return lines


def _tail(seconds: Floats, middle: float) -> str:
    quantiles = ", ".join(f"{part:.0%} up to {np.quantile(seconds, part) / middle:.3f}" for part in TAIL)
    return f"of the steps {quantiles} times as long as the usual one; the longest {seconds.max() / middle:.2f} times"


def _periods(steps: Sequence[int], slow: Bools) -> list[str]:
    events = runs(slow)
    period = period_of([steps[start] for start, _ in events])
    return [f"slow steps come every {period} steps ({len(events)} times)"] if period else []


def _parts(log: StepLog) -> list[str]:
    """Which parts a step has by the clock of the rank that logged, and which part makes longer steps longer."""
    whole_s = log.own_s[:, 0]
    parts_s = {name: np.nan_to_num(fracs[:, 0] * whole_s) for name, fracs in log.part_fracs.items()}
    shares = {name: float(seconds.sum() / whole_s.sum()) for name, seconds in parts_s.items()}
    largest = sorted((name for name in shares if shares[name] >= LEAST_PART), key=shares.__getitem__, reverse=True)
    if not largest:
        return []
    named = ", ".join(f"{name} {shares[name]:.1%}" for name in largest[:MOST_PARTS])
    lines = [f"parts of a step, by the clock of the rank that logged: {named}"]
    longer = whole_s > np.median(whole_s)
    if not longer.any():
        return lines
    more_s = float(whole_s[longer].mean() - whole_s[~longer].mean())
    if more_s < LEAST_VARIATION * float(np.median(whole_s)):
        return [*lines, "steps are of equal length: no part makes some of them longer"]
    added = {name: float(each[longer].mean() - each[~longer].mean()) / more_s for name, each in parts_s.items()}
    most = max(added, key=added.__getitem__)
    if added[most] < NAMED_FRAC:
        return [*lines, "no part alone makes the longer steps longer"]
    if most.endswith(OF_SLOWEST):
        return [*lines, f"{min(1.0, added[most]):.0%} of what longer steps take more is {most}: {MEANS['slowest']}"]
    kind = "transfers" if SENDING.search(most) else "loading" if LOADING.search(most) else "computing"
    return [*lines, f"{min(1.0, added[most]):.0%} of what longer steps take more is {most}: {MEANS[kind]}"]


def _extremes(log: StepLog) -> list[str]:
    """Say what slow ranks cost if the quickest and the slowest rank of each step are known, and perhaps a name."""
    found = [(log.own_s[place, 0], one) for place, step in enumerate(log.steps) for one in log.extremes.get(step, ())]
    lines = []
    for what in dict.fromkeys(one.what for _, one in found):
        some = [one for _, one in found if one.what == what]
        ratio = float(np.median([one.slowest_s / one.quickest_s for one in some]))
        apart_s = [one.apart_s for one in some]
        cost_frac = sum(apart_s) / sum(seconds for seconds, one in found if one.what == what)
        lines.append(
            f"the slowest rank's {what} takes {ratio:.3f} times as long as the quickest's, "
            f"{np.median(apart_s) / log.job.get(PER_ROW, 1):.3g} s more (medians of {len(some)} lines), "
            f"{cost_frac:.1%} of the time in all: slow ranks cost that at most"
        )
        lines += _slowest(some)
    return lines


def _slowest(some: Sequence[Extremes]) -> list[str]:
    """The name of the slowest rank, if the log has names."""
    if not some[0].slowest:
        return ["which rank that is, this log does not say"]
    name, times = Counter(one.slowest for one in some).most_common(1)[0]
    if times < FEWEST_NAMED or times < NAMED_FRAC * len(some):
        return [
            f"the slowest rank changes: rank {name}, the most frequent one, is the slowest in {times} of {len(some)}"
        ]
    ratio = float(np.median([one.slowest_s / one.quickest_s for one in some if one.slowest == name]))
    return [
        f"rank {name} is the slowest in {times} of {len(some)} lines, {ratio:.2f} times as long as the quickest then"
    ]
