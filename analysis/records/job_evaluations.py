"""The evaluations of one job of a cluster, and nothing else of its record: hundreds of jobs are read in turn."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import pandas as pd

from analysis.records.load import RecordError

_EVALUATED = b'"Evaluated"'


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
    path = folder / "events.jsonl"
    if not path.exists():
        return _frame([])
    *lines, rest = path.read_bytes().split(b"\n")
    found = []
    for number, text in enumerate(lines, start=1):
        if _EVALUATED in text and (event := _decode(path, number, text)) is not None:
            found.append(event)
    if _EVALUATED in rest:  # torn, unless only its newline is missing
        with contextlib.suppress(msgspec.DecodeError):
            found.append(_LINE.decode(rest).event)
    return _frame(found)


def _decode(path: Path, number: int, text: bytes) -> _Scored | None:
    try:
        return _LINE.decode(text).event
    except msgspec.ValidationError:
        return None  # another event, or a note, that has the word in a text
    except msgspec.DecodeError as error:
        raise RecordError(f"{path}:{number}: {error}. The record is damaged: repeat the run or leave it out") from None


def _frame(found: list[_Scored]) -> pd.DataFrame:
    names = dict.fromkeys(name for each in found for name in each.metrics)
    columns = {"asked_s": pd.Series([each.asked_s for each in found], dtype="float64")}
    columns |= {name: pd.Series([each.metrics.get(name) for each in found], dtype="float64") for name in names}
    return pd.DataFrame(columns).sort_values("asked_s", kind="stable", ignore_index=True)
