"""The frames of a run that was recorded by rows (``record=iterations``): one per iteration, without an event log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.records.schema import DURATIONS, PARTS, ROWS, Finished, Jumped

MAGIC = b"PAR1"
"""Magic bytes at the beginning and the end of a Parquet file."""
NUMBERS = ("worker", "iteration", "grad", "version_read", "samples", "assigned_samples", "applied_version")
MORE = (*PARTS, "applied_t")
INTEGERS, FLOATS = np.empty(0, np.int64), np.empty(0)


class Undone(NamedTuple):
    """At ``t`` (seconds) the parameters returned to ``version``: later updates are void."""

    t: float
    version: int


def read_rows(path: Path, rollbacks: Sequence[Undone] = ()) -> pd.DataFrame:
    """The rows, with the columns that :func:`analysis.records.tables.make_tables` gives an iteration.

    ``incarnation`` is 0 and ``loss`` is unknown; ``issued_s`` is when the Compute reached its worker, as far as the
    durations tell. A file without its footer (the run was killed) cannot be read and counts as empty. Rows say what was
    applied, not that it was undone: ``rollbacks`` of the log do.
    """
    rows = _read_stored(path)
    applied = rows["applied_version"] > 0
    begun = rows["t"] - sum(rows[name] for name in DURATIONS)
    version = rows["applied_version"].where(applied).astype("Int64")
    return pd.DataFrame(
        {
            "t": rows["t"],
            "worker": rows["worker"],
            "incarnation": 0,
            "iteration": rows["iteration"],
            **{name: rows[name] for name in ("grad", "version_read", "samples", "assigned_samples")},
            "cut_samples": 0,
            **{name: rows[name] for name in (*DURATIONS, *PARTS)},
            "iter_s": rows["data_s"] + rows["compute_s"] + rows["send_s"],
            "bpt_s": rows["data_s"] + rows["compute_s"],
            "start_s": begun,
            "issued_s": begun + rows["wait_s"],
            "loss": np.nan,
            "fate": np.select([_find_voided(rows, rollbacks), applied], ["void", "applied"], "dropped"),
            "applied_version": version,
            "applied_t": rows["applied_t"],
            "staleness": version - 1 - rows["version_read"],
        }
    )


def _find_voided(rows: pd.DataFrame, rollbacks: Sequence[Undone]) -> NDArray[np.bool_]:
    """Whether each row's update was undone."""
    times, versions = rows["applied_t"].to_numpy(), rows["applied_version"].to_numpy()
    found = np.zeros(len(rows), np.bool_)
    for undone in rollbacks:
        found |= (times <= undone.t) & (versions > undone.version)
    return found


def updates_of(iterations: pd.DataFrame, rollbacks: Sequence[Undone] = ()) -> pd.DataFrame:
    """One row per update, as :func:`analysis.records.tables.make_tables` gives them; ``lr_scale`` is unknown.

    After each of the ``rollbacks`` versions are given again.
    """
    used = iterations[iterations["fate"].isin(["applied", "void"])]
    before = np.searchsorted([undone.t for undone in rollbacks], used["applied_t"].to_numpy(), "left")
    version = used["applied_version"].astype("int64")
    groups = used.groupby(before * (version.max() + 1) + version, sort=True)
    return pd.DataFrame(
        {
            "t": groups["applied_t"].first().to_numpy(),
            "version": groups["applied_version"].first().to_numpy(dtype="int64"),
            "num_grads": groups.size().to_numpy(),
            "samples": groups["samples"].sum().to_numpy(),
            "lr_scale": np.nan,
            "void": groups["fate"].first().to_numpy() == "void",
        }
    )


def has_end(path: Path) -> bool:
    """Whether the file has its footer, without which its rows cannot be found."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - len(MAGIC)))
        return size > len(MAGIC) and file.read() == MAGIC


def _read_stored(path: Path) -> pd.DataFrame:
    if has_end(path):
        rows = pd.read_parquet(path)
        missing = [name for name in PARTS if name not in rows]  # of an older record
        return rows.assign(**dict.fromkeys(missing, np.nan))
    return pd.DataFrame({**dict.fromkeys(NUMBERS, INTEGERS), **dict.fromkeys(("t", *DURATIONS, *MORE), FLOATS)})


def problems_of(path: Path, iterations: pd.DataFrame, end: Finished | None, jumps: Sequence[Jumped] = ()) -> list[str]:
    """Problems of a file's rows: duplicate gradients, gaps in the versions, sums that contradict the last line.

    ``iterations`` may have copies of them, for what ``jumps`` have skipped.
    """
    if not has_end(path):
        return [f"{ROWS}: has no end, so its rows are lost; repeat the run"]
    found = []
    rows = iterations[~iterations["skipped"]] if jumps else iterations
    skipped = sum(jump.updates for jump in jumps)
    if (twice := int(rows["grad"].duplicated().sum())) > 0:
        found.append(f"{twice} gradients were used twice")
    versions = updates_of(rows[rows["fate"] == "applied"])["version"].to_numpy()
    whole = np.array_equal(versions, np.arange(1, len(versions) + 1))
    if not whole and not (skipped and len(versions) and versions[-1] <= len(versions) + skipped):
        found.append("the versions of the updates have gaps")
    applied = int(rows.loc[rows["fate"] == "applied", "samples"].sum()) + sum(jump.samples for jump in jumps)
    if end is not None and end.samples_applied is not None and end.samples_applied != applied:
        found.append(f"{applied} samples applied, but the last line says {end.samples_applied}")
    return found
