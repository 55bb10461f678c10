"""Our own records, read as a log: the workers' times, without the disturbances."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.logs.gathering import gather
from analysis.logs.step_log import RESTARTED, LogError, StepLog, drop_untimed_steps
from analysis.records.load import RecordError, Run, load_run
from analysis.records.log import of_record

KEPT = ("strategy", "topology", "num_servers", "num_samples", "epochs", "global_batch_samples", "epoch_overlap")
FEWEST_FRAC = 0.5
"""An iteration on a smaller part of its worker's usual batch (the end of an epoch) says little about the usual one."""


def read_record(path: Path) -> StepLog:
    """The iterations of a run, live or virtual.

    Neither the plan nor what workers report of injected time is used. Own work is loading and computing, scaled to the
    usual batch by the device's profile where the record has one, else in proportion.

    Raises:
        LogError: it is no readable record, or the job did nothing.
    """
    try:
        with of_record(path):
            return _read(path)
    except RecordError as error:
        raise LogError(str(error)) from None


def _read(path: Path) -> StepLog:
    run = load_run(path)
    rows = run.tables.iterations
    restart = _restart(rows)
    rows = rows[(rows["samples"] > 0) & (rows["incarnation"] == rows["incarnation"].min())]
    if not len(rows):
        raise LogError(f"{path}: the job never computed anything")
    base_frac, usual = _base_frac(run), float(rows["samples"].median())
    scale = base_frac + (1.0 - base_frac) * rows["samples"] / usual
    own = rows.groupby("worker")["samples"].transform("median")  # a slow worker may be given little throughout
    enough, loading_s = rows["samples"] >= FEWEST_FRAC * own, rows["data_s"] + rows["loader_s"].fillna(0.0)
    work_s, data_s = ((seconds / scale).where(enough) for seconds in (rows["bpt_s"], loading_s))
    rows = rows.assign(rank=rows["worker"], step=rows.groupby("worker").cumcount(), own_s=work_s, data_s=data_s)
    rows = rows.assign(comm_s=rows["pull_s"] + rows["send_s"], begin_s=rows["t"] - rows["send_s"] - rows["bpt_s"])
    job: dict[str, Any] = {name: run.job[name] for name in KEPT if name in run.job}
    job |= {"base_frac": base_frac, "own_clock": True, "jct_s": run.end_s, "live": run.meta["runtime"] == "live"}
    job |= restart
    names = ["rank", "step", "own_s", "data_s", "comm_s", "begin_s"]
    log = gather(str(path), rows[names], job=job)
    return drop_untimed_steps(_with_rounds(log, rows))


def _restart(rows: pd.DataFrame) -> dict[str, float]:
    """The median seconds from a worker's last gradient before a restart to the beginning of its next iteration."""
    ordered = rows.sort_values(["worker", "t"], kind="stable")
    of_worker = ordered.groupby("worker")
    begin_s = ordered["t"] - ordered["send_s"] - ordered["bpt_s"] - ordered["pull_s"]
    gaps_s = (begin_s - of_worker["t"].shift())[of_worker["incarnation"].diff() > 0]
    return {RESTARTED: float(gaps_s.median())} if len(gaps_s) else {}


def _base_frac(run: Run) -> float:
    """Part of an even batch's time that a smaller batch does not save, by the device's profile; 0 if there is none."""
    device = run.job.get("device")
    if not device:
        return 0.0
    even = run.job["global_batch_samples"] / run.job["num_workers"]
    base_s = float(device.get("base_s", 0.0))
    return base_s / whole_s if (whole_s := base_s + device.get("per_sample_s", 0.0) * even) else 0.0


def _with_rounds(log: StepLog, rows: pd.DataFrame) -> StepLog:
    """The time between two steps' last arrivals, which is a round's time if all workers wait for each other."""
    last_s = rows.groupby("step")["t"].max().reindex(list(log.steps)).to_numpy("float64")
    rounds = np.diff(last_s, prepend=nan)
    return StepLog(**{**vars(log), "round_s": rounds})
