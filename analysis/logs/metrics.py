"""Logs of metrics, as trackers keep them, as times of steps: by a metric of seconds, or by the clock of their rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.logs.gathering import gather, refuse_several
from analysis.logs.limits import MOST_ROWS, MOST_SECONDS, MOST_STEP
from analysis.logs.roles import Roles, roles_of
from analysis.logs.step_log import PER_ROW, LogError, StepLog, Untimed
from reading.errors import list_names, shown
from reading.units import unit_of

CLOCKS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))
"""(least value, its unit in seconds) of clocks that count from 1970; seconds are smaller."""
BY_CLOCK = (
    "no metric has the seconds of a step: they are the differences of the times at which metrics were logged, so "
    "evaluations and checkpoints between two rows count as part of the step"
)
NEMO = "train_step_timing"
WITHOUT_LOADING = "NeMo's train_step_timing begins after loading: it cannot tell whether steps wait for data"
RARE = 0.05
"""A metric that more steps lack, or that is as long as more steps, is not used as a part of steps."""
OWN_WORK = (
    "a rank's step counts as its own work: if ranks wait for each other within it, a slow rank does not show; log the "
    "seconds of computing or of communication on every rank"
)
HOW_TO_LOG = "log the seconds of every step, of loading and of communication on every rank"


def read_metrics(source: str, long: pd.DataFrame, remarks: Sequence[str] = (), unit_s: float | None = None) -> StepLog:
    """The steps of a log of metrics.

    Args:
        source: the file.
        long: a row per value, in the order of the log: ``rank``, ``step``, ``name``, ``value`` and perhaps ``clock_s``,
            when it was logged. Of several values of the same metric, step and rank the last one counts.
        remarks: what a reader must know.
        unit_s: seconds per unit of all times; None: what names say, else seconds.

    Raises:
        Untimed: nothing in it tells how long a step took.
        LogError: a step is no whole number, or there are too many rows.
    """
    if len(long) > MOST_ROWS:
        raise LogError(f"{source}: has more than {MOST_ROWS:,} values, the most that are read; give a part of it")
    unknown = int(long["rank"].isna().sum())
    long = long[long["rank"].notna()]
    steps = long["step"].to_numpy("float64")
    bad = ~(np.abs(steps) < MOST_STEP) | (steps != np.floor(steps))
    if bad.any():
        raise LogError(
            f"{source}: step {shown(long['step'].iloc[int(np.flatnonzero(bad)[0])])}: must be a whole number"
        )
    names = list(dict.fromkeys(long["name"]))
    roles = roles_of(names)
    ranks = long["rank"].convert_dtypes()  # of whole numbers that are floats since some are missing
    long = long.assign(step=steps.astype("int64"), rank=ranks.astype("str"))
    said = list(remarks)
    if roles.whole:
        roles = _usable(source, long, roles, unit_s, said)
        rows = _timed_by_metric(long, roles, unit_s)
    else:
        rows = _timed_by_clock(source, long, roles, names)
    said.append(_say_used(roles) if roles.whole else BY_CLOCK)
    if not (roles.sending or roles.computing) and rows["rank"].nunique() > 1:
        said.append(OWN_WORK)
    said += [f"{unknown:,} values without a rank are left out"] if unknown else []
    if any(NEMO in name for name in roles.whole):
        said.append(WITHOUT_LOADING)
    apart, job = np.diff(np.unique(rows["step"])), {}
    if len(apart) and (every := int(np.median(apart))) > 1:
        rest = "" if roles.whole else " and counts it as one that took as long as all of them"
        what = f"one step of every {every}" if roles.whole else f"the mean of every {every} steps"
        said.append(f"the log has {what}{rest}: what is slow between two rows hardly shows; log every step")
        job = {} if roles.whole else {PER_ROW: every}
    return gather(source, rows, remarks=said, job=job)


def _usable(source: str, long: pd.DataFrame, roles: Roles, unit_s: float | None, said: list[str]) -> Roles:
    """The roles with one time of whole steps, which has most values, and with what can be parts of them.

    Raises:
        LogError: several ranks have logged that time, and no rank is known.
    """
    counts = long["name"].value_counts()
    whole = max(roles.whole, key=lambda name: counts[name])
    rows = long[long["name"] == whole]
    if rows.duplicated(["rank", "step"]).any():
        refuse_several(source, rows)

    def seconds(name: str) -> pd.Series:
        last = long[long["name"] == name].drop_duplicates(["rank", "step"], keep="last")
        return last.set_index(["rank", "step"])["value"] * (unit_of(name) if unit_s is None else unit_s)

    whole_s = seconds(whole)

    def usable(names: Sequence[str]) -> tuple[str, ...]:
        kept = list[str]()
        for name in names:
            part_s = seconds(name).reindex(whole_s.index)
            missing, longer = float(part_s.isna().mean()), float((part_s >= whole_s).mean())
            if missing > RARE:
                said.append(f"{shown(name)} is missing in {missing:.0%} of the steps and not used; log it in every one")
            elif longer > RARE:
                said.append(
                    f"{shown(name)} is not used: it is as long as {shown(whole)} or longer in {longer:.0%} of the "
                    "steps; it may be no part of a step, or have another unit"
                )
            else:
                kept.append(name)
        return tuple(kept)

    return roles._replace(
        whole=(whole,), loading=usable(roles.loading), sending=usable(roles.sending), computing=usable(roles.computing)
    )


def _timed_by_metric(long: pd.DataFrame, roles: Roles, unit_s: float | None) -> pd.DataFrame:
    """Rows of the metric of whole steps; loading and communication are sums of their metrics."""
    (whole,) = roles.whole
    chosen = long[long["name"].isin([whole, *roles.loading, *roles.sending, *roles.computing])]
    chosen = chosen.drop_duplicates(["rank", "step", "name"], keep="last")
    wide = chosen.pivot(index=["rank", "step"], columns="name", values="value")
    wide = wide[wide[whole].between(0.0, MOST_SECONDS, inclusive="neither")]

    def seconds(names: Sequence[str]) -> pd.Series | None:
        if not names:
            return None
        return sum(
            wide[name].fillna(0.0).clip(lower=0.0) * (unit_of(name) if unit_s is None else unit_s) for name in names
        )

    total_s = seconds([whole])
    loading_s, sending_s, computing_s = seconds(roles.loading), seconds(roles.sending), seconds(roles.computing)
    rows = pd.DataFrame({"own_s": total_s, "round_s": total_s})
    if loading_s is not None:
        rows["data_s"] = loading_s.clip(upper=total_s)
    if sending_s is None and computing_s is not None and long["rank"].nunique() > 1:
        sending_s = total_s - computing_s - (0.0 if loading_s is None else loading_s)
    if sending_s is not None:
        rows["comm_s"] = sending_s.clip(lower=0.0, upper=total_s)
        rows["own_s"] = total_s - rows["comm_s"]
    elif long["rank"].nunique() > 1:
        rows = rows.drop(columns="round_s")
    return rows.reset_index()


def _timed_by_clock(source: str, long: pd.DataFrame, roles: Roles, names: Sequence[str]) -> pd.DataFrame:
    """Rows between two moments of the clock, of every rank."""
    if roles.clock:
        clock = long[long["name"] == roles.clock[0]]
        moments = clock.assign(clock_s=clock["value"] * clock_unit(roles.clock[0], clock["value"]))
    elif "clock_s" in long and long["clock_s"].notna().any():
        most = long["name"].value_counts().index[0]  # of tags that are logged now and then the moments are others
        moments = long[long["name"] == most]
    else:
        raise Untimed(f"{source}: its metrics ({list_names(names, 12)}) do not say how long a step took; {HOW_TO_LOG}")
    moments = moments.drop_duplicates(["rank", "step"], keep="first")
    since = moments.groupby("rank", sort=False)[["clock_s", "step"]].diff()
    every = float(np.median(np.diff(np.unique(moments["step"])))) if moments["step"].nunique() > 1 else 1.0
    usual = since["step"].clip(upper=every) / since["step"]  # rows may be missing: a gap is no slow step
    moments = moments.assign(own_s=since["clock_s"] * usual)
    possible = moments["own_s"].between(0.0, MOST_SECONDS, inclusive="neither") & (since["step"] > 0)
    return moments.loc[possible, ["rank", "step", "own_s"]]


def clock_unit(name: str, values: pd.Series) -> float:
    """Seconds per unit of a clock: by its size if it counts from 1970, else by its name."""
    usual = float(values.median())
    return next((unit_s for least, unit_s in CLOCKS if usual > least), unit_of(name))


def _say_used(roles: Roles) -> str:
    used = {
        "steps": roles.whole,
        "loading": roles.loading,
        "communication": roles.sending,
        "computing": roles.computing,
    }
    said = "; ".join(f"{part}: {list_names(names, 4)}" for part, names in used.items() if names)
    return f"times are the metrics of these names ({said})"
