"""The figures of one cluster run, and of several side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.figures.cluster.gantt import draw_gantt
from analysis.figures.cluster.ratios import draw_ratios
from analysis.figures.cluster.stragglers import draw_causes, draw_stragglers
from analysis.figures.cluster.times import draw_times
from analysis.figures.cluster.use import draw_host_use, draw_use
from analysis.figures.page import styled
from analysis.measures.cluster.straggling import Straggling
from analysis.records.cluster import Cluster
from analysis.records.provenance import cluster_caption

EPISODES = (
    "deviation: (T \N{MINUS SIGN} min T) / min T, T without the wait at the barrier; a straggler: more than 0.2; "
    "an episode: consecutive iterations of one straggler"
)


@dataclass(frozen=True, eq=False)
class Drawn:
    """The tables of one cluster run that are drawn, without the record itself."""

    meta: dict[str, Any]
    gpus: int
    times: pd.DataFrame
    use: pd.DataFrame
    found: Straggling | None


def draw_cluster(folder: Path, cluster: Cluster, drawn: Drawn, hosts: pd.DataFrame) -> list[Path]:
    """Draw every figure for which one run has data into ``folder``. Returns the PNGs.

    ``hosts``: what :func:`analysis.measures.cluster.hosts.host_use` returns.
    """
    about = cluster_caption([cluster.meta])
    found = {"": drawn.found} if drawn.found else {}
    with styled():
        figures = [
            draw_times(folder / "job_times.png", {"": drawn.times}, _note_unfinished([drawn.times], about)),
            draw_use(folder / "gpu_use.png", {"": drawn.use}, drawn.gpus, about),
            draw_gantt(folder / "hosts.png", cluster, about),
            draw_host_use(folder / "host_use.png", hosts, about),
            draw_stragglers(folder / "stragglers.png", found, _say(EPISODES, about)),
            draw_causes(folder / "straggler_causes.png", found, _say(EPISODES, about)),
        ]
    return [figure for figure in figures if figure is not None]


def draw_clusters(
    folder: Path, runs: pd.DataFrame, drawn: Sequence[Drawn], table: pd.DataFrame, pairs: pd.DataFrame, baseline: str
) -> list[Path]:
    """Draw a comparison, each case on pages of its own. Returns the PNGs.

    Args:
        folder: output directory.
        runs: one row per run (:func:`analysis.measures.cluster.comparing.cluster_table`).
        drawn: what is drawn of every row of ``runs``.
        table: one row per case and label (:func:`analysis.measures.cluster.comparing.compare_clusters_table`).
        pairs: the jobs' ratios (:func:`analysis.measures.cluster.comparing.paired_jobs`).
        baseline: the label that ratios are relative to.
    """
    figures: list[Path | None] = []
    with styled():
        for number, (case, rows) in enumerate(runs.groupby("case", sort=False)):
            mine = {
                str(label): [drawn[place] for place in group.index]
                for label, group in rows.groupby("label", sort=False)
            }
            where = folder if runs["case"].nunique() == 1 else folder / f"{number}_{_name(str(case))}"
            rows_of, pairs_of = (frame[frame["case"] == case] for frame in (table, pairs))
            figures += _draw_case(where, str(case), mine, rows_of, pairs_of, baseline)
    return [figure for figure in figures if figure is not None]


def _draw_case(
    folder: Path, case: str, mine: Mapping[str, list[Drawn]], table: pd.DataFrame, pairs: pd.DataFrame, baseline: str
) -> list[Path | None]:
    lot = [each for group in mine.values() for each in group]
    seeds = len({each.meta["seed"] for each in lot})
    about = _say(case, cluster_caption([each.meta for each in lot]))
    pooled = _say("jobs of all seeds together" if seeds > 1 else "", about)
    times = {label: pd.concat([each.times for each in group], ignore_index=True) for label, group in mine.items()}
    use = {label: group[0].use for label, group in mine.items()}
    first = f"seed {next(iter(mine.values()))[0].meta['seed']} of {seeds}" if seeds > 1 else ""
    found = {label: merge_stragglers(group) for label, group in mine.items() if any(each.found for each in group)}
    return [
        draw_times(folder / "job_times.png", times, _note_unfinished(times.values(), pooled)),
        draw_ratios(folder / "job_ratios.png", pairs, table, baseline, about),
        draw_use(folder / "gpu_use.png", use, max(each.gpus for each in lot), _say(first, about)),
        draw_stragglers(folder / "stragglers.png", found, _say(EPISODES, pooled)),
        draw_causes(folder / "straggler_causes.png", found, _say(EPISODES, pooled)),
    ]


def merge_stragglers(group: Sequence[Drawn]) -> Straggling:
    """The stragglers of several runs in one table."""
    lot = [each.found for each in group if each.found]
    frames = [
        pd.concat([getattr(each, name) for each in lot], ignore_index=True)
        for name in ("jobs", "episodes", "deviations")
    ]
    counts = frames[2].groupby(["kind", "up_to"], as_index=False)["count"].sum()
    return Straggling(frames[0], frames[1], counts, tuple(text for each in lot for text in each.unread))


def _note_unfinished(times: Any, about: str) -> str:
    frames = list(times)
    jobs, done = sum(map(len, frames)), sum(int(frame["completed"].sum()) for frame in frames)
    more = f"{jobs - done} of {jobs} jobs did not complete: their times are infinite, and the curves end below 100 %"
    return _say(more, about) if done < jobs else about


def _say(*parts: str) -> str:
    return " \N{MIDDLE DOT} ".join(part for part in parts if part)


def _name(case: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "_", case).strip("_")[:60] or "case"
