"""The evaluations of one job of a cluster, and nothing else of its record: hundreds of jobs are read in turn."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pandas as pd

from analysis.records.job_lines import lines_with


class _Scored(msgspec.Struct, tag_field="type", tag="Evaluated", gc=False):
    asked_s: float
    metrics: dict[str, float | None]


class _Line(msgspec.Struct, gc=False):
    event: _Scored


_LINE = msgspec.json.Decoder(_Line)


def read_evaluations(folder: Path) -> pd.DataFrame:
    """A row per evaluation, in the order of ``asked_s`` (seconds of the job's clock), with a column per metric.

    A job without a record, or that was never evaluated, has an empty frame.

    Raises:
        RecordError: a line that is not the last one is damaged.
    """
    return _frame([line.event for line in lines_with(folder, "Evaluated", _LINE)])


def _frame(found: list[_Scored]) -> pd.DataFrame:
    names = dict.fromkeys(name for each in found for name in each.metrics)
    columns = {"asked_s": pd.Series([each.asked_s for each in found], dtype="float64")}
    columns |= {name: pd.Series([each.metrics.get(name) for each in found], dtype="float64") for name in names}
    return pd.DataFrame(columns).sort_values("asked_s", kind="stable", ignore_index=True)
