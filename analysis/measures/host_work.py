"""The work of tasks on emulated hosts, as processor time, which quotas do not lengthen.

Wall time under a quota depends on what a task did before: the kernel lets it use its remaining quota at full speed. So
work is measured as the processor time that the kernel has counted (``Observed``), and only the work of tasks with a
core to themselves is measured as wall time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.measures.injections import PAYLOAD_FRAC
from analysis.records.load import Run
from analysis.records.nodes import TASKS, parse_node, role_of, server_name, worker_name

WORK_COLUMNS = (
    "t",
    "period_s",
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
INSTANT_S = 1e-9
"""Data that is sent at once counts as sent evenly within this time."""


def hosts_of(run: Run) -> list[dict[str, Any]]:
    """The run's hosts as ``meta.json`` describes them; empty without hosts."""
    return list(run.meta.get("machine", {}).get("hosts") or [])


def has_cores(run: Run) -> bool:
    """Whether every task has a core to itself, so that wall time equals work. Assumed without hosts."""
    hosts = hosts_of(run)
    alone = all(len(host["tasks"]) <= 1 and (host["cores"] is None or host["cores"] >= 1) for host in hosts)
    tasks = sum(len(host["tasks"]) for host in hosts)
    return not hosts or (alone and tasks <= run.meta["machine"].get("num_cores", 0))


def slowed_tasks(run: Run, target: str) -> set[str]:
    """The tasks slowed by a disturbance of ``target``: for a link, those on the hosts at its ends."""
    node = parse_node(target)
    if node.is_task:
        return {target}
    if node.is_inside:
        return {worker_name(node.number)}
    return {task for host in hosts_of(run) if host["number"] in node.numbers for task in host["tasks"]}


def wire_s(run: Run, num_bytes: int) -> float:
    """Minimum time for so many bytes between two of its hosts, one of which has the slowest link."""
    rates = [host["link_bytes_per_s"] for host in hosts_of(run) if host["link_bytes_per_s"]]
    return num_bytes / (min(rates) * PAYLOAD_FRAC) if rates else 0.0


def work(run: Run) -> pd.DataFrame:
    """A row per task and undisturbed telemetry sample: processor time, and the work done in it.

    ``t``, ``period_s`` (the sample is of so many seconds until ``t``), ``node``, ``role``, ``cpu_s``, ``crossing_frac``
    (the part of its messages that leaves its host); for a worker ``iterations`` and their ``samples``; for a server
    ``updates`` and their ``grads``, ``messages`` (parts of the model that it received or sent); ``num_workers`` of the
    run. Work that overlaps an edge of the sample is counted where it ends: off by one at most, and by nothing on
    average.
    """
    nodes = run.tables.nodes
    tasks = nodes[nodes["cpu_cores"].notna() & role_of(nodes["node"]).isin(TASKS)]
    found = [row for t, rows in tasks.groupby("t") if _calm(run, rows) for row in _rows(run, float(t), rows)]
    crossing = {task: _crossing_frac(run, task) for task in tasks["node"].unique()}
    rows = pd.DataFrame(found, columns=list(WORK_COLUMNS)).assign(num_workers=run.job["num_workers"])
    return rows.assign(crossing_frac=rows["node"].map(crossing))


def crossing_bytes(run: Run, num_bytes: int) -> dict[int, float]:
    """Return the bytes of a gradient of this size that leave each worker's host."""
    numbers = run.tables.iterations["worker"].unique()
    return {number: num_bytes * _crossing_frac(run, worker_name(number)) for number in numbers}


class Traffic(NamedTuple):
    """Bytes per second that a run sends between its hosts."""

    all_bytes_per_s: float
    of_others: dict[str, float]
    """For each task the bytes of other tasks' messages, while a worker computes or a server has a message."""


def traffic(run: Run, num_bytes: int) -> Traffic:
    """Return the traffic between hosts of a run with a model of so many bytes, from the times of its iterations.

    A gradient is sent evenly while its worker pushes it, parameters while it receives them.
    """
    rows, num_servers = run.tables.iterations, run.job.get("num_servers") or 1
    ends_s = rows["t"] - rows["send_s"]
    begins_s = ends_s - rows["compute_s"]
    sizes = crossing_bytes(run, num_bytes)
    span_s = float(rows["t"].max() - begins_s.min())
    all_bytes = 2 * float(rows["worker"].map(sizes).sum())
    workers = np.tile(rows["worker"].to_numpy(), 2)
    since_s = np.concatenate([ends_s, begins_s - rows["recv_s"].fillna(0.0)])
    until_s = np.concatenate([rows["t"], begins_s])
    found = {}
    for number in range(num_servers):
        own = _with_server(run, server_name(number), num_bytes / num_servers)
        others = {worker: sizes[worker] - own[worker] for worker in sizes}
        found[server_name(number)] = _rate(since_s, until_s, since_s, until_s, _by(workers, others))
    for number in sizes:
        mine, theirs = (rows["worker"] == number).to_numpy(), workers != number
        sent = since_s[theirs], until_s[theirs], _by(workers[theirs], sizes)
        found[worker_name(number)] = _rate(begins_s[mine].to_numpy(), ends_s[mine].to_numpy(), *sent)
    return Traffic(all_bytes / span_s if span_s else 0.0, found)


def _with_server(run: Run, server: str, part_bytes: float) -> dict[int, float]:
    """Return the bytes of each worker's message to this server, if the server is on another host."""
    near = slowed_tasks(run, next(f"host:{host['number']}" for host in hosts_of(run) if server in host["tasks"]))
    numbers = run.tables.iterations["worker"].unique()
    return {number: 0.0 if worker_name(number) in near else part_bytes for number in numbers}


def _by(workers: NDArray[np.int64], sizes: Mapping[int, float]) -> NDArray[np.float64]:
    return np.array([sizes[worker] for worker in workers])


def _rate(begins_s: NDArray[np.float64], ends_s: NDArray[np.float64], *sent: NDArray[np.float64]) -> float:
    """Bytes per second of the messages ``sent`` (since, until, bytes) on average over these times."""
    spent_s = float((ends_s - begins_s).sum())
    return float((_sum_sent(ends_s, *sent) - _sum_sent(begins_s, *sent)).sum()) / spent_s if spent_s else 0.0


def _sum_sent(
    at_s: NDArray[np.float64],
    since_s: NDArray[np.float64],
    until_s: NDArray[np.float64],
    num_bytes: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The bytes of all messages that are sent by each of the times ``at_s``, if each is sent evenly (pure)."""
    if not len(since_s):
        return np.zeros(len(at_s))
    rate = num_bytes / np.maximum(until_s - since_s, INSTANT_S)
    edges_s = np.concatenate([since_s, np.maximum(until_s, since_s + INSTANT_S)])
    order = np.argsort(edges_s)
    rates = np.cumsum(np.concatenate([rate, -rate])[order])
    sent = np.concatenate([[0.0], np.cumsum(rates[:-1] * np.diff(edges_s[order]))])
    by_then: NDArray[np.float64] = np.interp(at_s, edges_s[order], sent)
    return by_then


def _crossing_frac(run: Run, task: str) -> float:
    """Return the fraction of a task's partners in messages that are on other hosts."""
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
        about = {"t": t, "period_s": row["period_s"], "node": row["node"], "role": node.role, "cpu_s": cpu_s}
        yield about | (
            {"iterations": len(mine), "samples": int(mine["samples"].sum())}
            if node.role == "worker"
            else {"updates": len(updates), "grads": int(updates["num_grads"].sum()), "messages": len(arrived) + sent}
        )
