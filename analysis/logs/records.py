"""Records of steps as JSON or JSON Lines: telemetry, histories of trackers, and the state of Hugging Face's Trainer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.logs.cells import numbers_or_nan
from analysis.logs.metric_table import metric_column
from analysis.logs.metrics import HOW_TO_LOG, read_metrics
from analysis.logs.roles import roles_of
from analysis.logs.step_log import StepLog, Untimed
from reading.unpacked import plain_name

LINES = (".jsonl", ".ndjson")
SUMMARY = "train_runtime"
"""A key of the last record that Hugging Face's Trainer logs."""


def is_lines(path: Path) -> bool:
    """Whether the file is named as one with a JSON object per line."""
    return plain_name(path).endswith(LINES)


def records_in(found: Any) -> list[dict[str, Any]]:
    """The records of steps in the content of a JSON file: its longest list of objects that have a step, or none."""
    lists = [found, *found.values()] if isinstance(found, dict) else [found]
    records = [[each for each in some if isinstance(each, dict)] for some in lists if isinstance(some, list)]
    stepped = [some for some in records if some and roles_of(_keys(some)).step]
    return max(stepped, key=len, default=[])


def read_records(path: Path, records: Sequence[dict[str, Any]], unit_s: float | None = None) -> StepLog:
    """The steps of records, which have a step each, perhaps a rank, and numbers; ``unit_s`` as of tables.

    Raises:
        Untimed: nothing in them tells how long a step took.
        LogError: a number is none.
    """
    roles = roles_of(_keys(records))
    if {"key", "value"} <= records[0].keys():  # MLflow: an object per value
        rows = pd.DataFrame(records)
        long = pd.DataFrame({"rank": "0", "step": numbers_or_nan(rows[roles.step]), "name": rows["key"].astype("str")})
        long["value"] = numbers_or_nan(rows["value"])
        long["clock_s"] = numbers_or_nan(rows["timestamp"]) * 1e-3 if "timestamp" in rows else float("nan")
        return read_metrics(str(path), long.dropna(subset=["value"]), unit_s=unit_s)
    if SUMMARY in records[-1]:
        _refuse_trainer(path, records)
    wide = pd.DataFrame([record for record in records if record.get(roles.step or "") is not None])
    values = [key for key in wide if key not in (roles.step, roles.rank)]
    frames = [
        metric_column(wide, roles, key)
        for key in values
        if not wide[key].map(lambda each: isinstance(each, (list, dict, bool))).any()
    ]
    if not frames:
        raise Untimed(f"{path}: its records have a step and no numbers; {HOW_TO_LOG}")
    long = pd.concat(frames).sort_index(kind="stable").dropna(subset=["value"])
    return read_metrics(str(path), long, unit_s=unit_s)


def _keys(records: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for record in records for key in record))


def _refuse_trainer(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """Say what the state of Hugging Face's Trainer tells if it has no times of steps, which it has by default."""
    total_s, steps = numbers_or_nan([records[-1][SUMMARY], records[-1].get("step")])
    if roles_of(_keys(records)).whole or not total_s > 0.0 or not steps >= 0.0:
        return
    tests = numbers_or_nan([record["eval_runtime"] for record in records if "eval_runtime" in record]).dropna()
    share = (
        f", of which {len(tests)} evaluations took {sum(tests):.4g} s ({sum(tests) / total_s:.1%})"
        if len(tests)
        else ""
    )
    raise Untimed(
        f"{path}: Hugging Face's Trainer trained {steps:,.0f} steps in {total_s:.4g} s{share}; its state has no time "
        f"of a single step, so slow steps are not known; {HOW_TO_LOG}, or give the event file of report_to=tensorboard"
    )
