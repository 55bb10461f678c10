"""Records of steps as JSON or JSON Lines: telemetry, histories of trackers, and the state of Hugging Face's Trainer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from analysis.logs.limits import MEBI, MOST_OBJECTS
from analysis.logs.metrics import HOW_TO_LOG, read_metrics
from analysis.logs.opening import content
from analysis.logs.roles import roles_of
from analysis.logs.step_log import LogError, StepLog, Untimed
from reading.unpacked import plain_name

MOST_JSON_BYTES = 128 * MEBI
LINES = (".jsonl", ".ndjson")
SUMMARY = "train_runtime"
"""A key of the last record that Hugging Face's Trainer logs."""


def is_lines(path: Path) -> bool:
    """Whether the file is named as one with a JSON object per line."""
    return plain_name(path).endswith(LINES)


def records_in(path: Path) -> list[dict[str, Any]]:
    """The records of steps in a JSON file: its longest list of objects that have a step; empty: there are none.

    Raises:
        LogError: it is no JSON, or too large.
    """
    data = content(path)
    if len(data) > MOST_JSON_BYTES or data.count(b"{") > MOST_OBJECTS:
        raise LogError(
            f"{path}: is larger than the {MOST_JSON_BYTES // MEBI} MiB of JSON that are read; give fewer steps"
        )
    try:
        found = msgspec.json.Decoder().decode_lines(data) if is_lines(path) else msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LogError(f"{path}: is no JSON ({error}); copy or write it again") from None
    except RecursionError:
        raise LogError(f"{path}: is no JSON (too many brackets are open at once)") from None
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
    if {"key", "value"} <= records[0].keys():  # MLflow: an object per value
        long = pd.DataFrame(records).rename(columns={"key": "name"})
        long["clock_s"] = (
            pd.to_numeric(long["timestamp"], errors="coerce") * 1e-3 if "timestamp" in long else float("nan")
        )
        long["value"] = pd.to_numeric(long["value"], errors="coerce")
        return read_metrics(str(path), long.assign(rank="0").dropna(subset=["value"]), unit_s=unit_s)
    if SUMMARY in records[-1]:
        _refuse_trainer(path, records)
    keys = _keys(records)
    roles = roles_of(keys)
    wide = pd.DataFrame([record for record in records if record.get(roles.step or "") is not None])
    rank = wide[roles.rank] if roles.rank else "0"
    values = [key for key in wide if key not in (roles.step, roles.rank)]
    frames = [
        pd.DataFrame(
            {"rank": rank, "step": wide[roles.step], "name": key, "value": pd.to_numeric(wide[key], errors="coerce")}
        )
        for key in values
        if not wide[key].map(lambda each: isinstance(each, (list, dict, bool))).any()
    ]
    long = pd.concat(frames).sort_index(kind="stable").dropna(subset=["value"]) if frames else wide.iloc[:0]
    steps = pd.to_numeric(long["step"], errors="coerce") if frames else []
    if not frames:
        raise Untimed(f"{path}: its records have a step and no numbers; {HOW_TO_LOG}")
    return read_metrics(str(path), long.assign(step=steps), unit_s=unit_s)


def _keys(records: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for record in records for key in record))


def _refuse_trainer(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """Say what the state of Hugging Face's Trainer tells if it has no times of steps, which it has by default."""
    if roles_of(_keys(records)).whole:
        return
    total_s, steps = float(records[-1][SUMMARY]), int(records[-1].get("step", 0))
    tests = [float(record["eval_runtime"]) for record in records if "eval_runtime" in record]
    share = f", of which {len(tests)} evaluations took {sum(tests):.4g} s ({sum(tests) / total_s:.1%})" if tests else ""
    raise Untimed(
        f"{path}: Hugging Face's Trainer trained {steps:,} steps in {total_s:.4g} s{share}; its state has no time of a "
        f"single step, so slow steps are not known; {HOW_TO_LOG}, or give the event file of report_to=tensorboard"
    )
