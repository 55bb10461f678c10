"""A run as a table with a row per rank, step and part, and its description: the form that ``advise`` reads."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import yaml

from analysis.logs.parts_table import COLUMNS, COMMUNICATION, COMPUTING, LOADING, VERSION, WHOLE
from analysis.records.load import Run
from analysis.sinks.errors import SinkError

NEEDS = ""


def export(run: Run, where: str) -> str:
    """Write a table (Parquet) and its description (YAML), named like the run, into ``where``; the path of the table.

    A step is an iteration of a worker, from when it is asked for parameters until its gradient has arrived.

    Raises:
        SinkError: a file of that name is there and not ours, or the run has no iterations.
    """
    path = Path(where) / f"{run.path.name}.parquet"
    about = path.with_suffix(".yaml")
    if about.exists() and not about.read_text(errors="replace").startswith("form: steps\n"):
        raise SinkError(f"steps: {about}: exists and is no description of steps; choose another directory (--where)")
    if path.exists() and not about.exists():
        raise SinkError(f"steps: {path}: exists and is not ours; choose another directory (--where)")
    rows = step_rows(run)
    if not len(rows):
        raise SinkError(f"steps: {run.path}: the job never computed anything")
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {"form": "steps", "version": VERSION, "source": run.path.name, "clock": "seconds since the job began"}
    said |= {name: run.job[name] for name in ("strategy", "topology", "num_workers") if name in run.job}
    about.write_text(yaml.safe_dump(said, sort_keys=False))
    rows.to_parquet(path, index=False)
    return str(path)


def step_rows(run: Run) -> pd.DataFrame:
    """A row per worker, iteration and part, with the columns of ``stragglab.logging``."""
    done = run.tables.iterations
    done = done[done["samples"] > 0]
    step = done.groupby("worker").cumcount()
    loader_s = done["loader_s"].fillna(0.0)  # older records do not tell it from computing
    lengths = {
        LOADING: done["data_s"] + loader_s,
        COMPUTING: done["compute_s"] - loader_s,
        COMMUNICATION: done["pull_s"] + done["send_s"],
    }
    lengths[WHOLE] = sum(lengths.values(), pd.Series(0.0, index=done.index))
    begin_s = done["t"] - lengths[WHOLE]
    frames = [
        pd.DataFrame({"rank": done["worker"], "step": step, "part": part, "begin_s": begin_s, "seconds": seconds})
        for part, seconds in lengths.items()
    ]
    rows = pd.concat(frames).sort_values(["step", "rank"], kind="stable")
    return rows.assign(group="")[list(COLUMNS)]
