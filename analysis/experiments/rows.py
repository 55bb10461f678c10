"""Rows that stay: what every run of an experiment measured, in a CSV file next to the page of its paper.

A row has the run's levels, seed and measures, all that captions say of it, and what decides whether it counts: hashes
of its settings and code, and the share of the machine that other programs took. Curves of the metric are part of it if
the experiment needs them. So figures, verdicts and pages need no record.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.claims.ledger import Claim
from analysis.experiments.results import Results, measure_run, seed_of, with_references
from analysis.experiments.spec import OVER_TIME, Cell, Spec, cells
from analysis.files import write_file
from analysis.measures import memory_speed, targets, work
from analysis.measures.warned import disturbances_of, overrun_fracs, warnings_of_run
from analysis.measures.warning_lines import Warned, together
from analysis.records.load import Run

Row = dict[str, str]
BUSY_FRAC = 0.05
"""Share of the machine's processor time: with more for other programs, a run on it was not alone."""
ABOUT = {
    **{name: ("job", name) for name in ("workload", "straggler", "backend", "collective", "num_workers")},
    **{name: ("job", name) for name in ("num_servers", "global_batch_samples", "metric", "higher_is_better")},
    **{name: ("machine", name) for name in ("cpu", "num_cores", "kernel")},
    **{name: ("machine", "means", name) for name in ("throttles", "host_quotas", "network")},
    **{"version": ("versions", "stragglab"), "commit": ("versions", "commit"), "date": ("started_at",)},
}
"""Columns that say what was run where: the path of each in the record's ``meta.json``."""
DIGITS = 6


def row_of(spec: Spec, cell: Cell, run: Run, more: Mapping[str, Any]) -> Row:
    """Return the row of a run; ``more``: what its record does not know (hashes, ``others_frac``, ``wall_s``)."""
    computed = work.with_samples(run.tables.iterations)
    live = run.meta["runtime"] == "live"
    warned = warnings_of_run(run, disturbances_of(run)) if live else []
    overrun = overrun_fracs(computed).max() if live else None
    copies = memory_speed.readings(run)["copy_s"]
    found = {
        **measure_run(spec, cell, run),
        "seed": cell.seed,
        **{name: _at(run.meta, path) for name, path in ABOUT.items()},
        "fitted": json.dumps(run.meta.get("fitted") or []),
        "overrun_frac": 0.0 if overrun is not None and pd.isna(overrun) else overrun,
        "copy_s": copies.median() if len(copies) else None,
        **more,
        "warnings": json.dumps([one._asdict() for one in warned]) if warned else "",
        "curves": json.dumps(_curves(spec, run)) if spec.target or spec.figure.kind in OVER_TIME else "",
    }
    return {name: _text(value) for name, value in found.items()}


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file; none if there is no file."""
    return list(csv.DictReader(io.StringIO(path.read_text()))) if path.exists() else []


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write a file of rows; a row has an empty text where only others have a column."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_file(path, text.getvalue())


def name_in(spec: Spec, row: Row) -> str:
    """Return the name of the cell that a row is of; empty if the experiment has no such axis any more."""
    if not {*spec.axes, "seed"} <= {*row}:
        return ""
    return Cell({axis: row[axis] for axis in spec.axes}, int(row["seed"])).name


def is_busy(row: Row) -> bool:
    """Whether other programs took so much of the machine, or an unknown part, that a timed run does not count."""
    return bool(row["others_frac"]) and not float(row["others_frac"]) <= BUSY_FRAC


def results_of_rows(spec: Spec, by_name: Mapping[str, Row], claims: Sequence[Claim], kept: str) -> Results:
    """Return the results of those cells that have a row; ``kept`` says which rows these are."""
    there = [cell for cell in cells(spec) if cell.name in by_name]
    rows = [by_name[cell.name] for cell in there]
    evaluations = [pd.DataFrame(json.loads(row["curves"] or "{}"), dtype="float64") for row in rows]
    scored = [targets.scores(each, row["metric"]) for each, row in zip(evaluations, rows, strict=True)]
    frame = pd.DataFrame(
        [{**_frame_row(spec, row), "seed": seed_of(spec, cell)} for cell, row in zip(there, rows, strict=True)]
    )
    higher = [row["higher_is_better"] == "True" for row in rows]
    warned = [[Warned(**one) for one in json.loads(row["warnings"] or "[]")] for row in rows]
    return Results(
        spec=spec,
        runs=with_references(spec, frame, there, scored, higher),
        metas=[meta_of(row) for row in rows],
        claims=claims,
        evaluations=list(zip(there, evaluations, strict=True)),
        warnings=[one.text for one in together(warned, "live runs")],
        kept=kept,
    )


def meta_of(row: Row) -> dict[str, Any]:
    """Return what captions read of a record's ``meta.json``."""
    found: dict[str, Any] = {"runtime": row["runtime"], "calibration": row["calibration"] or None}
    found |= {"seed": int(row["seed"]), "fitted": json.loads(row["fitted"])}
    for name, path in ABOUT.items():
        place = found
        for step in path[:-1]:
            place = place.setdefault(step, {})
        place[path[-1]] = row[name] or None
    return found


def _frame_row(spec: Spec, row: Row) -> dict[str, Any]:
    own = (*spec.measures, *(["gain"] if spec.gain else []))
    numbers = {name: float(row[name] or "nan") for name in own}
    texts = {name: row[name] for name in ("runtime", "calibration", "plan_sha256")}
    return {**{axis: row[axis] for axis in spec.axes}, **texts, "completed": row["completed"] == "True", **numbers}


def _curves(spec: Spec, run: Run) -> dict[str, list[float]]:
    """Evaluations of the metric, and of the loss where the experiment shows it."""
    loss = spec.figure.kind == "loss" or "perplexity" in spec.measures
    wanted = dict.fromkeys(("asked_s", str(run.job["metric"]), *(["loss"] if loss else [])))
    there = run.tables.evaluations
    return {name: [float(f"{value:.{DIGITS}g}") for value in there[name]] for name in wanted if name in there}


def _at(meta: Mapping[str, Any], path: Sequence[str]) -> Any:
    found: Any = meta
    for step in path:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _text(value: Any) -> str:
    return "" if value is None else repr(float(value)) if isinstance(value, float) else str(value)
