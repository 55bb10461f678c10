"""From the records of an experiment to one frame, and from the frame to verdicts."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import nan
from typing import Any

import numpy as np
import pandas as pd

from analysis.claims.answers import UNITS, Answer, answer, by_seed, mask_cut_off
from analysis.claims.cells import cell_of
from analysis.claims.judge import Verdict, judge
from analysis.claims.ledger import Claim
from analysis.claims.related import Ends, extend_by_ratios
from analysis.experiments.cluster_measures import CLUSTER_MEASURES, digest, paired_ratio
from analysis.experiments.measures import MEASURES, gain_after, scores
from analysis.experiments.samples import pool, sample, single_values
from analysis.experiments.spec import ALL_LEVELS, OF_SHOWS, PAIRED, PREDICTOR, Cell, Shown, Spec
from analysis.measures import targets
from analysis.measures.cluster.learning import Learning, common_losses, mean_tta_s
from analysis.measures.metrics import has_completed
from analysis.measures.small_samples import interval, median
from analysis.measures.warned import disturbances_of, warnings_of_run
from analysis.measures.warning_lines import together
from analysis.records.cluster import Cluster
from analysis.records.load import Run
from analysis.records.provenance import caption

VALUE, RATIO = "value", "ratio"
"""How a paper says a value: by itself, or by its ratio to another."""
Rates = Callable[[Run], Mapping[str, Mapping[str, float]]]
"""A function from a run to the rates of right and wrong tags of every predictor, by its level."""


@dataclass(frozen=True)
class Results:
    """An experiment that has been run.

    ``runs`` has a row per run, or per run and predictor: a column for each axis (the level's name), ``seed``,
    ``runtime``, ``calibration``, ``plan_sha256``, ``completed``, and its measures. ``records`` are the runs of the
    first seed, for figures that show what happened over time.
    """

    spec: Spec
    runs: pd.DataFrame
    metas: list[dict[str, Any]]
    claims: Sequence[Claim] = ()
    marked: Sequence[Claim] = ()
    """The claims of the experiments ``figure.marks_of``, which the figure marks and nobody judges here."""
    records: Mapping[str, tuple[Cell, Run]] = field(default_factory=dict)
    evaluations: Sequence[tuple[Cell, pd.DataFrame]] = ()
    """For every run: ``asked_s`` and the metrics."""
    samples: pd.DataFrame = field(default_factory=lambda: pool([]))
    """Distributions that the figure shows: the axes, ``seed``, ``measure``, ``group``, ``value``, ``count``."""
    warnings: Sequence[str] = ()
    """Requests that its live runs are known not to have fulfilled."""
    kept: str = ""
    """The rows that stayed, in words, if these are the results of such rows."""

    @property
    def source(self) -> str:
        """The runs in words, for a caption."""
        if not self.spec.times_only:
            return caption(self.metas)
        kind = "virtual clock, no gradients" if "backend=none" in self.spec.settings else "virtual clock"
        return f"{kind}, {seeds_of(self.runs)}"

    @property
    def answers(self) -> list[tuple[Claim, Answer | None, Verdict]]:
        """Every claim with our answer and the verdicts."""
        found = [(claim, answer(claim, self.runs)) for claim in self.claims]
        return [(claim, ours, judge(claim, ours)) for claim, ours in found]


def measure_runs(spec: Spec, runs: Sequence[tuple[Cell, Run]], rates: Rates | None = None) -> pd.DataFrame:
    """The frame of :class:`Results` for single jobs. One that was cut off has its measures and ``completed=False``.

    Repetitions along an axis get seeds of their own. ``rates`` scores the predictors of ``spec``: a run has a row for
    each of them.
    """
    rows = [{**measure_run(spec, cell, run), "seed": seed_of(spec, cell)} for cell, run in runs]
    higher = [bool(run.job["higher_is_better"]) for _, run in runs]
    curves = [scores(run) for _, run in runs] if spec.target else []
    frame = with_references(spec, pd.DataFrame(rows), [cell for cell, _ in runs], curves, higher)
    return frame if rates is None else with_rates(frame, [rates(run) for _, run in runs])


def measure_run(spec: Spec, cell: Cell, run: Run) -> dict[str, Any]:
    """Return what one run says by itself: its levels, what it is, and its measures."""
    about = {"runtime": run.meta["runtime"], "calibration": run.meta.get("calibration") or ""}
    about |= {"plan_sha256": run.meta.get("plan_sha256"), "completed": has_completed(run)}
    found = {name: MEASURES[name](run) for name in spec.measures}
    if spec.gain is not None:
        found["gain"] = gain_after(run, int(cell.levels[spec.gain.axis]), spec.gain.for_s)
    return {**cell.levels, **about, **found}


def seed_of(spec: Spec, cell: Cell) -> int:
    """Return the seed in the frame: repetitions along an axis have seeds of their own."""
    if spec.repeats is None:
        return cell.seed
    places = list(spec.axes[spec.repeats])
    return cell.seed * len(places) + places.index(cell.levels[spec.repeats])


def with_references(
    spec: Spec, frame: pd.DataFrame, there: Sequence[Cell], curves: Sequence[pd.DataFrame], higher: Sequence[bool]
) -> pd.DataFrame:
    """Add the measures that compare a run with another one of its seed: ``tta_s``, ``until_target``, ``excess``.

    ``curves`` (``asked_s``, ``value``) and ``higher`` (is a higher metric better?) belong to the cells ``there``; they
    matter with a ``target`` only.
    """
    if spec.target:
        frame["tta_s"] = tta(spec, there, curves, higher)
    _add_until_target(spec, frame)
    for name, reference in spec.excess.items():
        frame[name] = mask_cut_off(frame)["jct_s"] - frame["seed"].map(by_seed(frame, reference, "jct_s"))
    return frame


def _add_until_target(spec: Spec, frame: pd.DataFrame) -> None:
    for name, rate in spec.until_target.items():
        frame[name] = frame[rate] * frame["tta_s"]


def warnings_of_live(runs: Sequence[Run]) -> list[str]:
    """Return the warnings of the live runs among these, each once, with the worst case."""
    live = [run for run in runs if run.meta["runtime"] == "live"]
    return [one.text for one in together((warnings_of_run(run, disturbances_of(run)) for run in live), "live runs")]


def measure_sets(spec: Spec, runs: Sequence[tuple[Cell, Cluster]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The frames ``runs`` and ``samples`` of :class:`Results` for runs that are sets of jobs.

    ``completed``: whether all jobs did. ``paired`` and ``target`` compare jobs of a run with the same jobs of the
    reference with the same seed.
    """
    rows, times, learnt = [], dict[str, pd.DataFrame](), dict[str, Learning]()
    wanted = [one.measure for one in spec.figure.several] if spec.figure.kind in OF_SHOWS else []
    samples = list[pd.DataFrame]()
    for cell, cluster in runs:
        run = digest(cluster)
        times[cell.name] = run.times
        if spec.target:
            learnt[cell.name] = run.learning
        about = {"runtime": cluster.meta["runtime"], "calibration": "", "plan_sha256": None, "completed": run.is_done}
        found = {name: CLUSTER_MEASURES[name](run) for name in spec.measures}
        rows.append({**cell.levels, "seed": cell.seed, **about, **found})
        if wanted:
            samples.append(sample(run, wanted).assign(**cell.levels, seed=cell.seed))
    frame = pd.DataFrame(rows)
    if spec.target:
        losses = cache(lambda names: common_losses([learnt[name] for name in names]))
        reached_s = [learnt[cell.name].reached_s(losses(references(spec, cell, learnt))) for cell, _ in runs]
        frame["tta_s"] = [mean_tta_s(by_job) for by_job in reached_s]
        for (cell, _), by_job in zip(runs, reached_s, strict=True) if "tta_s" in wanted else ():
            samples.append(single_values(list(by_job.values()), "tta_s").assign(**cell.levels, seed=cell.seed))
    _add_until_target(spec, frame)
    if spec.paired:
        bases = [times.get(Cell({**cell.levels, **spec.paired}, cell.seed).name) for cell, _ in runs]
        frame[PAIRED] = [
            nan if base is None else paired_ratio(times[cell.name], base)
            for (cell, _), base in zip(runs, bases, strict=True)
        ]
    return frame, pool([one for one in samples if len(one)], [*spec.axes, "seed"])


def with_rates(frame: pd.DataFrame, found: Sequence[Mapping[str, Mapping[str, float]]]) -> pd.DataFrame:
    """A row per run and predictor; ``found`` has the rates of every run by predictor, in the frame's order."""
    scored = [
        {"place": place, PREDICTOR: name, **values}
        for place, by_name in enumerate(found)
        for name, values in by_name.items()
    ]
    return frame.merge(pd.DataFrame(scored), left_index=True, right_on="place").drop(columns="place")


def base_of(spec: Spec, runs: pd.DataFrame) -> pd.Series:
    """JCT of the cell ``paired`` with the other levels and the seed of each run; NaN if that was not run."""
    alike = [axis for axis in (*spec.axes, "seed") if axis not in spec.paired]
    chosen = (runs[[*spec.paired]] == pd.Series(spec.paired)).all(axis="columns")
    base = runs.loc[chosen, [*alike, "jct_s"]].rename(columns={"jct_s": "base_s"})
    return runs[alike].merge(base, how="left", on=alike)["base_s"]


def seeds_of(runs: pd.DataFrame) -> str:
    """The seeds, and that numbers are medians if there are several."""
    seeds = ", ".join(map(str, sorted(runs["seed"].unique())))
    return f"medians over seeds {seeds}" if "," in seeds else f"seed {seeds}"


def references(spec: Spec, cell: Cell, there: Container[str]) -> tuple[str, ...]:
    """The names of the runs that set the target of a run; none unless all of them are there."""
    chosen = [
        [(axis, name) for name in (spec.axes[axis] if level == ALL_LEVELS else [level])]
        for axis, level in spec.target.items()
    ]
    names = tuple(Cell({**cell.levels, **dict(levels)}, cell.seed).name for levels in product(*chosen))
    return names if all(name in there for name in names) else ()


def tta(spec: Spec, there: Sequence[Cell], curves: Sequence[pd.DataFrame], higher: Sequence[bool]) -> list[float]:
    """Seconds of every run until the metric that its reference cell converges to; NaN if that cell was not run."""
    by_name = dict(zip((cell.name for cell in there), curves, strict=True))
    found = []
    for cell, curve, higher_is_better in zip(there, curves, higher, strict=True):
        settled = [targets.converged_value(by_name[name]) for name in references(spec, cell, by_name)]
        target = (min if higher_is_better else max)(settled, default=nan)
        reached_s = targets.tta_s(curve, target, higher_is_better)
        found.append(reached_s if target == target else nan)
    return found


def summary(results: Results, shown: Shown | None = None) -> pd.DataFrame:
    """Return by cell ``runs``, ``missed`` (cut off) and the plotted measure: ``value`` (median), ``low``, ``high``.

    ``shown``: the measure, if it is not the figure's ``value``.
    """
    drawn, rows = results.spec.figure, []
    one = shown or drawn.alone
    there = results.runs[results.runs[drawn.by].isin(results.spec.shown_levels)]
    for levels, group in there.groupby(results.spec.compared_axes, sort=False):
        cell = dict(zip(results.spec.compared_axes, levels, strict=True))
        values = by_seed(results.runs, cell, one.measure) * one.scale
        low, high = interval(values)
        missed = (
            int((~group["completed"].astype(bool)).sum()) if one.measure == "jct_s" else int(np.isinf(values).sum())
        )
        rows.append({**cell, "value": median(values), "low": low, "high": high, "missed": missed, "runs": len(group)})
    return pd.DataFrame(rows)


def paper_values(results: Results, shown: Shown | None = None) -> pd.DataFrame:
    """Return the paper's values of the plotted measure: the cell's axes, ``value`` (scaled as ours), ``std``, ``how``.

    ``how`` is ``value`` for a number of the paper's, ``ratio`` for a value that follows from its ratios: to its own
    numbers, or to our value of the cell ``figure.anchor``. Where those give several, ``std`` is half of their range.
    """
    drawn, axes = results.spec.figure, results.spec.compared_axes
    one, rows = shown or drawn.alone, list[dict[str, Any]]()
    claims = [claim for claim in (*results.claims, *results.marked) if claim.of == (one.claims or one.measure)]
    for claim in claims:
        if claim.how == "value" and set(claim.subject) == set(axes) and claim.value is not None:
            factor = one.scale / UNITS[claim.unit]
            found = {"value": claim.value * factor, "std": (claim.std or 0.0) * factor}
            rows.append({**claim.subject, **found, "how": VALUE})
    rows += [{**more.at, "value": more.value, "std": 0.0, "how": VALUE} for more in drawn.printed if one == drawn.alone]
    known = {tuple(row[axis] for axis in axes): (row["value"], row["value"]) for row in rows}
    start = _anchors(results, one) if drawn.anchor else known
    for cell, (low, high) in extend_by_ratios(claims, axes, start, one.scale).items():
        if cell not in known and cell not in start:
            found = {"value": (low + high) / 2, "std": (high - low) / 2}
            rows.append({**dict(zip(axes, cell, strict=True)), **found, "how": RATIO})
    return pd.DataFrame(rows, columns=[*axes, "value", "std", "how"])


def _anchors(results: Results, one: Shown) -> dict[tuple[str, ...], Ends]:
    """Our values of the cells ``figure.anchor``, by cell."""
    anchor, found = results.spec.figure.anchor, dict[tuple[str, ...], Ends]()
    for levels, _ in results.runs.groupby(results.spec.compared_axes, sort=False):
        cell = dict(zip(results.spec.compared_axes, levels, strict=True))
        value = median(by_seed(results.runs, cell, one.measure)) * one.scale
        if all(cell[axis] in there for axis, there in anchor.items()) and np.isfinite(value):
            found[tuple(levels)] = value, value
    return found


def verdict_frame(results: Results) -> pd.DataFrame:
    """One row per claim, for the CSV: the paper's value, ours with its interval, the verdicts and their source."""
    rows = []
    for claim, ours, verdict in results.answers:
        found, runs = ours or Answer(), runs_behind(claim, results.runs)
        rows.append(
            {
                "id": claim.id,
                "where": claim.where,
                "check": claim.check,
                "paper": claim.value,
                "unit": claim.unit,
                "ours": found.value,
                "low": found.low,
                "high": found.high,
                "ratio": found.value / claim.value if claim.value else None,
                "seen": found.text,
                "side": verdict.side,
                "size": verdict.size,
                "seeds": found.seeds,
                "runtime": ", ".join(dict.fromkeys(runs["runtime"])) if ours else "",
                "calibration": ", ".join(filter(None, dict.fromkeys(runs["calibration"]))) if ours else "",
                "experiment": results.spec.name,
            }
        )
    return pd.DataFrame(rows)


def runs_behind(claim: Claim, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of the cells that a claim is about: some experiments have live and virtual ones."""
    found = [cell_of(runs, cell) for cell in (claim.subject, *({**claim.subject, **cell} for cell in claim.against))]
    return pd.concat(found) if any(map(len, found)) else runs
