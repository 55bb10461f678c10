"""The use of processors and links by the tasks of one job on hosts, by their counters (the table ``nodes``)."""

from __future__ import annotations

from collections.abc import Callable
from math import nan

import pandas as pd

from analysis.records.load import Run
from analysis.records.nodes import parse_node, role_of

FIRST_FRAC = 0.1
"""Part of a run that is left out, at its start."""


def host_cores(role: str) -> Callable[[Run], float]:
    """Return the measure of the cores that a task of this role used: mean over time and tasks; NaN if not sampled."""

    def measure(run: Run) -> float:
        rows = _rows_after_start(run)
        return float(rows.loc[role_of(rows["node"]) == role, "cpu_cores"].mean()) if len(rows) else nan

    return measure


def host_bytes_per_s(role: str) -> Callable[[Run], float]:
    """Return the measure of bytes per second on the links of hosts that hold tasks of one role only.

    In the busier direction, with headers: mean over time and hosts; NaN if there is no such host.
    """

    def measure(run: Run) -> float:
        rows = _rows_after_start(run)
        rows = rows[rows["node"].isin(_hosts_of(run, role))]
        if rows.empty:
            return nan
        return float(rows.groupby("node")[["in_bytes_per_s", "out_bytes_per_s"]].mean().max(axis="columns").mean())

    return measure


def over_worker_frac(measure: Callable[[str], Callable[[Run], float]]) -> Callable[[Run], float]:
    """Return the measure of how much more a server uses than a worker, as a fraction of the worker's use."""
    server, worker = measure("server"), measure("worker")
    return lambda run: server(run) / worker(run) - 1.0


def used_cores(run: Run) -> float:
    """Cores that all hosts together used."""
    return _all_hosts(run, "cpu_cores")


def used_bytes_per_s(run: Run) -> float:
    """Bytes per second that all hosts together sent."""
    return _all_hosts(run, "out_bytes_per_s")


def _all_hosts(run: Run, column: str) -> float:
    rows = _rows_after_start(run)
    return float(rows[role_of(rows["node"]) == "host"].groupby("node")[column].mean().sum(min_count=1))


def _rows_after_start(run: Run) -> pd.DataFrame:
    rows = run.tables.nodes
    return rows[rows["t"] > FIRST_FRAC * rows["t"].max()] if len(rows) else rows


def _hosts_of(run: Run, role: str) -> list[str]:
    hosts = run.meta["machine"].get("hosts") or []
    return [f"host:{host['number']}" for host in hosts if {parse_node(task).role for task in host["tasks"]} == {role}]


HOST_MEASURES: dict[str, Callable[[Run], float]] = {
    "host_server_cores": host_cores("server"),
    "host_worker_cores": host_cores("worker"),
    "host_server_bytes_per_s": host_bytes_per_s("server"),
    "host_worker_bytes_per_s": host_bytes_per_s("worker"),
    "host_server_cores_over_worker_frac": over_worker_frac(host_cores),
    "host_server_bytes_over_worker_frac": over_worker_frac(host_bytes_per_s),
    "host_used_cores": used_cores,
    "host_used_bytes_per_s": used_bytes_per_s,
}
