"""Records of steps as JSON or JSON Lines: telemetry, histories of trackers, and the state of Hugging Face's Trainer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.logs.cells import numbers_or_nan
from analysis.logs.json_values import decode_file
from analysis.logs.limits import MOST_LINE
from analysis.logs.metric_table import metric_column
from analysis.logs.metrics import HOW_TO_LOG, read_metrics
from analysis.logs.opening import open_text
from analysis.logs.roles import Roles, roles_of
from analysis.logs.several import Counted, read_each
from analysis.logs.step_log import StepLog, Untimed
from analysis.logs.trace_folder import RANK
from reading.unpacked import plain_name

LINES = (".jsonl", ".ndjson")
SUMMARY = "train_runtime"
"""A key of the last record that Hugging Face's Trainer logs."""


def is_lines(path: Path) -> bool:
    """Whether the file is named as one with a JSON object per line, or named as JSON and begins with two of them."""
    if not plain_name(path).endswith(".json"):
        return plain_name(path).endswith(LINES)
    with open_text(path) as file:
        lines = [file.readline(MOST_LINE).strip() for _ in range(2)]
    return lines[0].startswith("{") and lines[0].endswith("}") and lines[1].startswith("{")


def records_in(found: Any) -> list[dict[str, Any]]:
    """The records of steps in a JSON file: of its lists of objects that have a step the longest, or none.

    Objects by number or by name, and such objects by epoch, are a list, too. Lists with times go before others.
    """
    lists = [found, *found.values()] if isinstance(found, dict) else [found]
    stepped = [some for some in map(_objects_of, lists) if some and roles_of(_keys(some)).step]
    return max(stepped, key=lambda some: (bool(roles_of(_keys(some)).whole), len(some)), default=[])


def _objects_of(some: Any) -> list[dict[str, Any]]:
    """The objects of a list, or of an object of objects; of such an object by epoch all of them."""
    values = list(some.values()) if isinstance(some, dict) else some if isinstance(some, list) else []
    if isinstance(some, dict) and not all(isinstance(each, dict) for each in values):
        return []
    if isinstance(some, dict) and values and all(all(isinstance(a, dict) for a in each.values()) for each in values):
        values = [each for epoch in values for each in epoch.values()]
    return [each for each in values if isinstance(each, dict)]


def ranks_in(folder: Path) -> dict[str, Path]:
    """Files of records by rank, of a folder with one per rank (``rank0.json``); empty if it has not."""
    files = [path for path in folder.iterdir() if path.is_file() and plain_name(path).endswith((*LINES, ".json"))]
    named = [(str(int(said[1])), path) for path in sorted(files) if (said := RANK.search(path.name))]
    return dict(named) if len(dict(named)) == len(named) > 1 else {}


def read_ranks(
    folder: Path, files: dict[str, Path], unit_s: float | None = None, counted: Counted = list
) -> StepLog | None:
    """The steps of records of all ranks; None: a file has no records of steps."""
    named = {path: rank for rank, path in files.items()}
    found, broken = read_each(
        list(named), lambda path: (named[path], records_in(decode_file(path, lines=is_lines(path)))), counted
    )
    if not all(some for _, some in found):
        return None
    log = read_records(folder, [{"rank": rank, **one} for rank, some in found for one in some], unit_s)
    return replace(log, remarks=(*broken, *log.remarks))


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
    wide = pd.DataFrame([one for one in _of_training(records, roles) if one.get(roles.step or "") is not None])
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


def _of_training(records: Sequence[dict[str, Any]], roles: Roles) -> Sequence[dict[str, Any]]:
    """Without records of evaluations, which have a time and lack most of what a record of a training step has."""
    timed = [one for one in records if any(name in one for name in roles.whole)]
    if 2 * len(timed) <= len(records):
        return records
    usual = {key for key, count in Counter(key for one in timed for key in one).items() if 2 * count > len(timed)}
    return [one for one in records if 2 * len(usual & one.keys()) > len(usual)]


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
