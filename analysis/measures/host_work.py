"""The work of tasks on emulated hosts, as processor time, which quotas do not lengthen.

Wall time under a quota depends on what a task did before: the kernel lets it use its remaining quota at full speed. So
work is measured as the processor time that the kernel has counted (``Observed``), and only the work of tasks with a
core to themselves is measured as wall time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.measures.injections import PAYLOAD_FRAC
from analysis.records.load import Run
from analysis.records.nodes import TASKS, parse_node, role_of, server_name, worker_name

WORK_COLUMNS = (
    "node",
    "role",
    "cpu_s",
    "iterations",
    "samples",
    "updates",
    "grads",
    "messages",
    "num_workers",
)


def hosts_of(run: Run) -> list[dict[str, Any]]:
    """The run's hosts as ``meta.json`` describes them; empty without hosts."""
    return list(run.meta.get("machine", {}).get("hosts") or [])


def has_cores(run: Run) -> bool:
    """Whether every task has a core to itself, so that wall time equals work. Assumed without hosts."""
    hosts = hosts_of(run)
    alone = all(len(host["tasks"]) <= 1 and (host["cores"] is None or host["cores"] >= 1) for host in hosts)
    tasks = sum(len(host["tasks"]) for host in hosts)
    return not hosts or (alone and tasks <= run.meta["machine"].get("num_cores", 0))


def touched(run: Run, target: str) -> set[str]:
    """The tasks slowed by a disturbance of ``target``: for a link, those on the hosts at its ends."""
    node = parse_node(target)
    if node.is_task:
        return {target}
    return {task for host in hosts_of(run) if host["number"] in node.numbers for task in host["tasks"]}


def wire_s(run: Run, num_bytes: int) -> float:
    """Minimum time for so many bytes between two of its hosts, one of which has the slowest link."""
    rates = [host["link_bytes_per_s"] for host in hosts_of(run) if host["link_bytes_per_s"]]
    return num_bytes / (min(rates) * PAYLOAD_FRAC) if rates else 0.0


def work(run: Run) -> pd.DataFrame:
    """A row per task and undisturbed telemetry sample: processor time, and the work done in it.

    ``node``, ``role``, ``cpu_s``, ``crossing_frac`` (the part of its messages that leaves its host); for a worker
    ``iterations`` and their ``samples``; for a server ``updates`` and their ``grads``, ``messages`` (parts of the model
    that it received or sent); ``num_workers`` of the run. Work that overlaps an edge of the sample is counted where it
    ends: off by one at most, and by nothing on average.
    """
    nodes = run.tables.nodes
    tasks = nodes[nodes["cpu_cores"].notna() & role_of(nodes["node"]).isin(TASKS)]
    found = [row for t, rows in tasks.groupby("t") if _calm(run, rows) for row in _rows(run, float(t), rows)]
    crossing = {task: _crossing_frac(run, task) for task in tasks["node"].unique()}
    rows = pd.DataFrame(found, columns=list(WORK_COLUMNS)).assign(num_workers=run.job["num_workers"])
    return rows.assign(crossing_frac=rows["node"].map(crossing))


class Traffic(NamedTuple):
    """Bytes per second that a run sends between its hosts."""

    all_bytes_per_s: float
    of_others: dict[str, float]
    """By task: those of messages of which it is no end; of a worker on average while it computes."""


def traffic(run: Run, num_bytes: int) -> Traffic:
    """What a run with a model of so many bytes sends between hosts, from the times of its iterations.

    A gradient counts when its worker begins to push, parameters when it begins to receive.
    """
    rows, num_servers = run.tables.iterations, run.job.get("num_servers") or 1
    ends_s = rows["t"] - rows["send_s"]
    begins_s = ends_s - rows["compute_s"]
    numbers = rows["worker"].unique()
    sizes = {number: num_bytes * _crossing_frac(run, worker_name(number)) for number in numbers}
    span_s = float(rows["t"].max() - begins_s.min())
    all_bytes = 2 * float(rows["worker"].map(sizes).sum())
    found = {}
    for number in range(num_servers):
        own_bytes = 2 * num_bytes / num_servers * len(rows) * _crossing_frac(run, server_name(number))
        found[server_name(number)] = (all_bytes - own_bytes) / span_s if span_s else 0.0
    for number in numbers:
        mine = rows["worker"] == number
        others = rows[~mine]
        sent = np.concatenate([ends_s[~mine], (begins_s - rows["recv_s"].fillna(0.0))[~mine]])
        order = np.argsort(sent)
        total = np.concatenate([[0.0], np.cumsum(np.tile(others["worker"].map(sizes), 2)[order])])
        until, since = (total[np.searchsorted(sent[order], at[mine])] for at in (ends_s, begins_s))
        computing_s = float(rows.loc[mine, "compute_s"].sum())
        found[worker_name(number)] = float((until - since).sum()) / computing_s if computing_s else 0.0
    return Traffic(all_bytes / span_s if span_s else 0.0, found)


def _crossing_frac(run: Run, task: str) -> float:
    """Of the tasks that a worker or a server exchanges messages with, as many as are on other hosts than it is."""
    peer = "server" if parse_node(task).role == "worker" else "worker"
    hosts = [[one for one in host["tasks"] if parse_node(one).role == peer] for host in hosts_of(run)]
    mine = next((peers for host, peers in zip(hosts_of(run), hosts, strict=True) if task in host["tasks"]), [])
    total = sum(map(len, hosts))
    return (total - len(mine)) / total if total else 0.0


def _calm(run: Run, rows: pd.DataFrame) -> bool:
    t, period_s = rows[["t", "period_s"]].iloc[0]
    return not ((run.plan["start_s"] < t) & (run.plan["end_s"] > t - period_s)).any()


def _rows(run: Run, t: float, rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    tables, since_s = run.tables, t - float(rows["period_s"].iloc[0])

    def within(times: pd.Series) -> pd.Series:
        return (times > since_s) & (times <= t)

    arrived = tables.iterations[within(tables.iterations["t"])]
    updates = tables.updates[within(tables.updates["t"]) & ~tables.updates["void"]]
    sent = int(within(tables.iterations["issued_s"]).sum() + within(tables.evaluations["asked_s"]).sum())
    for _, row in rows.iterrows():
        node = parse_node(row["node"])
        cpu_s = row["cpu_cores"] * row["period_s"]
        mine = arrived[arrived["worker"] == node.number]
        yield {"node": row["node"], "role": node.role, "cpu_s": cpu_s} | (
            {"iterations": len(mine), "samples": int(mine["samples"].sum())}
            if node.role == "worker"
            else {"updates": len(updates), "grads": int(updates["num_grads"].sum()), "messages": len(arrived) + sent}
        )
