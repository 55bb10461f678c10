"""A run's warnings to readers of its results: all requests that it is known not to have fulfilled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from analysis.measures import work
from analysis.measures.disturbances import achieved_effects
from analysis.measures.injections import injections
from analysis.measures.injector_errors import ABOUT, PROMISED_MS
from analysis.measures.warning_lines import Warned, together
from analysis.records.load import RecordError, Run, load_run
from analysis.records.nodes import Node
from analysis.records.schema import Allocated, Other

LEAST_OVERRUN_FRAC = 0.05
"""Least share of a worker's time; with a smaller overrun its device was as fast as requested."""
TOLERANCE_FRAC = 0.1
"""Part of the request: the tolerance of the injectors (:mod:`analysis.measures.injector_errors`)."""
LEAST_FRAC = 0.01
"""Least share of the job's time: fewer seconds that were injected too many or too few do not count."""
LEAST_LATE_S = 0.1
ENFORCED = ("cpu_cores", "link_bytes_per_s")


def disturbances_of(run: Run) -> pd.DataFrame:
    """Its plan with what was achieved (:func:`analysis.measures.disturbances.achieved_effects`)."""
    tables = run.tables
    return achieved_effects(run.plan, tables.iterations, tables.updates, tables.server_busy)


def warnings_of_run(run: Run, injected: pd.DataFrame) -> list[Warned]:
    """All warnings of a run: its strategy's own, unfulfilled requests, and laws that its record breaks.

    ``injected``: its :func:`disturbances_of`.
    """
    own = [Warned(run.finished.warning)] if run.finished and run.finished.warning else []
    parts = (_overruns(run), _sleeps(run, injected), _levels(run), _late(run), _hogs(run), _short(run), _notes(run))
    broken = [Warned(f"integrity: {problem}") for problem in run.integrity.problems]
    return [*own, *(found for part in parts for found in part), *broken]


def warnings_of_jobs(folders: Iterable[Path]) -> list[Warned]:
    """The warnings of jobs that have records in these directories; damaged records are left out."""
    found = []
    for folder in folders:
        try:
            run = load_run(folder, check=True)
        except RecordError:
            continue
        found.append(warnings_of_run(run, disturbances_of(run)))
    return together(found, "jobs")


def _overruns(run: Run) -> Iterator[Warned]:
    rows = work.with_samples(run.tables.iterations)
    share = overrun_fracs(rows)
    if share.max() > LEAST_OVERRUN_FRAC:
        late = rows[rows["overrun_s"] > 0]
        took = f"{len(late)} of {len(rows)} iterations took {late['overrun_s'].sum():.3g} s longer than their devices"
        worst = f"worst: worker {share.idxmax()}, {share.max():.0%} of its time".replace("%", " %")
        yield Warned("paced devices could not keep up", f"{took}; {worst}", float(share.max()))


def overrun_fracs(rows: pd.DataFrame) -> pd.Series:
    """The share of each worker's time by which its iterations took longer than its paced device; empty if none did.

    ``rows``: iterations that were computed (:func:`analysis.measures.work.with_samples`).
    """
    late = rows[rows["overrun_s"] > 0]
    return late.groupby("worker")["overrun_s"].sum() / work.time_spent(rows).sum(axis="columns")


def _sleeps(run: Run, injected: pd.DataFrame) -> Iterator[Warned]:
    """Delays and slow-downs, which workers and servers sleep; of each target as many of them as were reported.

    A task that was lost, or has moved, may have left its disturbances behind (``docs/restarts.md``), so it is left out.
    """
    gone = run.tables.restarts
    if (gone["what"] == "Preempted").any():
        return
    left = {str(Node(role, (number,))) for role, number in zip(gone["role"], gone["id"], strict=True) if number >= 0}
    worst = Warned("")
    for target, rows in injected[~injected["target"].isin(left)].groupby("target"):
        asked_s, done_s = float(rows["reported_s"].sum()), float(rows["achieved_s"].sum())
        off_s = abs(done_s - asked_s)
        if off_s > TOLERANCE_FRAC * asked_s and off_s > LEAST_FRAC * run.end_s:
            detail = f"{target}: {done_s:.3g} s of delays and slow-downs for {asked_s:.3g} s"
            found = Warned("disturbances were not as planned", detail, off_s / run.end_s)
            worst = max(worst, found, key=lambda one: one.share)
    if worst.what:
        yield worst


def _levels(run: Run) -> Iterator[Warned]:
    """Levels of disturbances, and limits of nodes, that are others than asked for."""
    notes = run.tables.injections
    off = (notes["achieved"] - notes["asked"]).abs() / notes["asked"].where(notes["asked"] > 0, 1.0)
    if (off > TOLERANCE_FRAC).any():
        note = notes.loc[off.idxmax()]
        detail = f"{note['kind']} of {note['target']}: {note['achieved']:g} for {note['asked']:g}, by {note['by']}"
        yield Warned("disturbances were not as planned", detail, float(off.max()))
    throttled = set(run.plan.loc[run.plan["kind"] == "cpu", "target"])
    given: dict[str, Allocated] = {}
    for line in run.notable_lines:
        if isinstance(line.note, Allocated):
            given[line.note.node] = line.note
        elif isinstance(line.note, Other) and line.note.type == "Enforced" and line.note.fields["node"] in given:
            fields = line.note.fields
            for name in ENFORCED if fields["node"] not in throttled else ENFORCED[1:]:
                asked, held = getattr(given[fields["node"]], name), fields.get(name)
                if asked and held and abs(held / asked - 1.0) > TOLERANCE_FRAC:
                    yield Warned("limits were not as allocated", f"{fields['node']}: {name} {held:g} for {asked:g}")
                    return


def _late(run: Run) -> Iterator[Warned]:
    """Disturbances that took effect so late that the job felt another one: each lasts until the next of its target."""
    notes = run.tables.injections
    due_s, late_s = notes["t"] - notes["took_s"] - notes["late_s"], notes["took_s"] + notes["late_s"]
    last = due_s.groupby([notes["target"], notes["kind"]]).shift(-1).fillna(run.end_s)
    share = late_s / (last - due_s).clip(lower=LEAST_LATE_S)
    share = share[(late_s > LEAST_LATE_S) & (share > TOLERANCE_FRAC)]
    if len(share):
        note = notes.loc[share.idxmax()]
        worst = f"worst: {note['kind']} of {note['target']}, {late_s[share.idxmax()]:.1f} s"
        yield Warned("disturbances took effect late", f"{len(share)} of {len(notes)}; {worst}", float(share.max()))


def _hogs(run: Run) -> Iterator[Warned]:
    """Warn of hogs that left more or less of a GPU than they should have."""
    notes = run.tables.injections
    hogs = notes[notes["kind"] == "gpu"]
    off = (hogs["measured"] - hogs.groupby("target")["level"].shift(1)).abs()
    if (off > TOLERANCE_FRAC).any():
        worst = off.idxmax()
        detail = f"{hogs['target'][worst]} was off by {off[worst]:.0%} of the GPU".replace("%", " %")
        yield Warned("disturbances were not as planned", detail, float(off[worst]))


def _short(run: Run) -> Iterator[Warned]:
    """Warn of iterations that are too short for cpulimit, which switches its target about once a second."""
    if not (run.tables.injections["by"] == "cpulimit").any():
        return
    rows, shortest_s = injections(run), PROMISED_MS["cpulimit"] / 1e3
    rows = rows[(rows["by"] == "cpulimit") & (rows["felt_s"] * ABOUT < shortest_s)]
    if not rows.empty:
        worst = rows.loc[rows["felt_s"].idxmin()]
        detail = (
            f"{worst['target']}: {1e3 * worst['felt_s']:.0f} ms under its limit; use runtime.cpu_by=cgroup, or duty"
        )
        yield Warned("iterations were too short for cpulimit", detail, shortest_s / worst["felt_s"])


def _notes(run: Run) -> Iterator[Warned]:
    """Return the runtime's own notes: quotas that this machine cannot keep, or keeps at the kernel's ticks alone."""
    for line in run.notable_lines:
        match line.note:
            case Other(type="Crowded", fields=about):
                detail = f"{about['promised_cores']:.2f} of its {about['cores']} cores; busy hosts disturb each other"
                yield Warned("quotas of hosts were more than the machine can give", detail)
            case Other(type="TicksMissing", fields=about):
                yield Warned("quotas of hosts were looked at by the kernel's ticks alone", str(about["reason"]))
