"""Measures of runs whose nodes change (frames: :mod:`analysis.measures.elastic`); seconds, cores, steps per second.

``last`` is the minute that ends half a minute before the last update: in the last seconds of a job shards run out.
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan

import pandas as pd

from analysis.measures import elastic
from analysis.records.load import Run
from analysis.records.nodes import role_of

LAST_S = 60.0
BEFORE_END_S = 30.0


def last_window(run: Run) -> tuple[float, float]:
    """Seconds at which ``last`` begins and ends; it is shorter in a run that is."""
    times = _update_times(run)
    end = float(times.max()) if len(times) else 0.0
    begin = float(times.min()) if len(times) else 0.0
    if end - begin < LAST_S + BEFORE_END_S:
        return begin, end
    return end - BEFORE_END_S - LAST_S, end - BEFORE_END_S


def _update_times(run: Run) -> pd.Series:
    rows = run.tables.updates
    return rows.loc[~rows["void"], "t"]


def _rate(run: Run, begin: float, end: float) -> float:
    times = _update_times(run)
    return float(((times > begin) & (times <= end)).sum()) / (end - begin) if end > begin else nan


def steps_per_s_last(run: Run) -> float:
    """Throughput of the last minute."""
    return _rate(run, *last_window(run))


def steps_per_s_first(run: Run) -> float:
    """Throughput from the first update to the first decision that changes something, or to the end."""
    times, made = _update_times(run), elastic.decisions(run)
    made = made[made["number"] > 0]
    if times.empty:
        return nan
    return _rate(run, float(times.iloc[0]), float(made["t"].iloc[0] if len(made) else times.iloc[-1]))


def steps_per_s_settled(run: Run) -> float:
    """Throughput from the last change of the nodes to the end; of the whole run if they never changed."""
    times = _update_times(run)
    if times.empty:
        return nan
    return _rate(run, max(changed_s_last(run), float(times.min())), float(times.max()))


def speed_up_frac(run: Run) -> float:
    """Throughput of the last minute relative to as many workers as now, each as fast as the first worker alone."""
    return steps_per_s_last(run) / (workers_last(run) * steps_per_s_first(run))


def workers_last(run: Run) -> float:
    """Number of workers at the end."""
    return float(elastic.nodes_over_time(run)["workers"].iloc[-1])


def servers_last(run: Run) -> float:
    """Number of servers that hold parameters at the end."""
    return float(elastic.nodes_over_time(run)["servers"].iloc[-1])


def cores_last(run: Run) -> float:
    """Cores of all nodes at the end; NaN if it is not known of one of them."""
    return float(elastic.nodes_over_time(run)["cores"].iloc[-1])


def worker_cores_last(run: Run) -> float:
    """Cores of a worker at the end: their median."""
    return float(pd.Series(elastic.cores_of(run, "worker"), dtype="float64").median())


def server_cores_most(run: Run) -> float:
    """Cores of the largest server at the end."""
    return max(elastic.cores_of(run, "server"), default=nan)


def worker_use_last(run: Run) -> float:
    """Cores that a worker used in the last minute: mean over time and workers."""
    rows = run.tables.nodes
    rows = _last(run, rows[role_of(rows["node"]) == "worker"])
    return float(rows["cpu_cores"].mean())


def server_use_last(run: Run) -> float:
    """Cores that all servers together used in the last minute."""
    return float(_last(run, elastic.server_use(run)).groupby("server")["cpu_cores"].mean().sum(min_count=1))


def server_spread_last(run: Run) -> float:
    """Difference in use between the busiest and the idlest server in the last minute, each as a part of its cores."""
    means = _last(run, elastic.server_use(run)).groupby("server")["use_frac"].mean()
    return float(means.max() - means.min()) if len(means) else nan


def _last(run: Run, rows: pd.DataFrame) -> pd.DataFrame:
    begin, end = last_window(run)
    return rows[(rows["t"] > begin) & (rows["t"] <= end)]


def changed_s_last(run: Run) -> float:
    """Time of the last change of the nodes; 0 without any."""
    return float(elastic.nodes_over_time(run)["t"].iloc[-1])


def switches(run: Run) -> float:
    """How often parameters moved to other servers."""
    return float(len(elastic.switches(run)))


def stall_s_most(run: Run) -> float:
    """Longest time without an update while parameters moved; 0 if they never did."""
    return float(elastic.switches(run)["stall_s"].max()) if switches(run) else 0.0


def stall_s_sum(run: Run) -> float:
    """Time without an update while parameters moved, all in all."""
    return float(elastic.switches(run)["stall_s"].sum())


ELASTIC_MEASURES: dict[str, Callable[[Run], float]] = {
    "steps_per_s_first": steps_per_s_first,
    "steps_per_s_last": steps_per_s_last,
    "steps_per_s_settled": steps_per_s_settled,
    "speed_up_frac": speed_up_frac,
    "workers_last": workers_last,
    "servers_last": servers_last,
    "cores_last": cores_last,
    "worker_cores_last": worker_cores_last,
    "server_cores_most": server_cores_most,
    "worker_use_last": worker_use_last,
    "server_use_last": server_use_last,
    "server_spread_last": server_spread_last,
    "changed_s_last": changed_s_last,
    "switches": switches,
    "stall_s_most": stall_s_most,
    "stall_s_sum": stall_s_sum,
}
