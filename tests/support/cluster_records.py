"""Records of clusters, written by hand: what happened to the jobs, and the iterations of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

ROW = {
    **dict.fromkeys(("wait_s", "pull_s", "data_s", "compute_s", "send_s", "injected_s", "overrun_s", "recv_s"), 0.0),
    "cpu_s": None,
}


def meta(gpus: Sequence[int] = (4, 4), seed: int = 0, **cluster: Any) -> dict[str, Any]:
    """What ``meta.json`` says of hosts with so many GPUs, 8 cores and 1 GB/s each."""
    hosts = [
        {"number": number, "gpus": each, "cores": 8.0, "link_bytes_per_s": 1e9} for number, each in enumerate(gpus)
    ]
    about = {"jobs": "table", "policy": "fifo", "placement": "first_fit", "strategy": "bsp", "straggler": "none"}
    return {
        "schema": 1,
        "kind": "cluster",
        "run_id": "run",
        "runtime": "virtual",
        "calibration": "cal-7",
        "started_at": "2026-11-24T15:00:00+00:00",
        "seed": seed,
        "versions": {"stragglab": "0.1.0", "commit": "abc1234"},
        "machine": {"cpu": "Test CPU", "num_cores": 2, "kernel": "6.1", "hosts": hosts},
        "cluster": {**about, **cluster},
    }


@dataclass
class ClusterStory:
    """What happened in a cluster, note by note."""

    gpus: Sequence[int] = (4, 4)
    seed: int = 0
    cluster: dict[str, Any] = field(default_factory=dict)
    notes: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    samples: list[tuple[float, int, float, float, float, float]] = field(default_factory=list)

    def note(self, t: float, kind: str, **fields: Any) -> None:
        self.notes.append((t, {"type": kind, **fields}))

    def submit(self, t: float, job: str, gpus: int, duration_s: float | None = None, **more: Any) -> None:
        self.note(t, "Submitted", job=job, gpus=gpus, servers=more.pop("servers", 0), duration_s=duration_s, **more)

    def start(
        self, t: float, job: str, workers: Sequence[int], servers: Sequence[int] = (), zero_s: float | None = None
    ) -> None:
        self.note(t, "Placed", job=job, workers=list(workers), servers=list(servers))
        self.note(t if zero_s is None else zero_s, "Started", job=job)

    def preempt(self, t: float, job: str, gone_s: float | None = None) -> None:
        self.note(t, "Preempted", job=job)
        self.note(t if gone_s is None else gone_s, "Queued", job=job)

    def end(self, t: float, job: str, status: str = "done", reason: str = "") -> None:
        self.note(t, "Ended", job=job, status=status, reason=reason)

    def iterate(self, job: str, number: int, times: Sequence[dict[str, float]], t: float | None = None) -> None:
        """One iteration of every worker: its durations. All begin together, when the slowest of the last was done."""
        mine = self.rows.setdefault(job, [])
        begun = max((row["t"] for row in mine), default=0.0) if t is None else t
        for worker, durations in enumerate(times):
            spent = {**ROW, **durations}
            busy = sum(spent[name] for name in ("pull_s", "data_s", "compute_s", "send_s"))
            mine.append(
                {"t": begun + busy, "worker": worker, "iteration": number, "grad": len(mine), "version_read": number,
                 "samples": 8, "assigned_samples": 8, "applied_version": number + 1, "applied_t": begun + busy, **spent}
            )  # fmt: skip

    def lines(self) -> str:
        ordered = sorted(self.notes, key=lambda one: one[0])
        return "".join(
            json.dumps({"seq": seq, "t": t, "kind": "note", "note": note}) + "\n"
            for seq, (t, note) in enumerate(ordered)
        )

    def table(self) -> pd.DataFrame:
        """``jobs.parquet``, from the notes."""
        jobs: dict[str, dict[str, Any]] = {}
        for t, note in sorted(self.notes, key=lambda one: one[0]):
            row = jobs.get(note.get("job", ""), {})
            match note["type"]:
                case "Submitted":
                    jobs[note["job"]] = {
                        "job": note["job"], "submit_s": t, "start_s": None, "end_s": None, "gpus": note["gpus"],
                        "servers": note["servers"], "model": note.get("model", ""), "user": note.get("user", ""),
                        "status": "waiting", "starts": 0, "preemptions": 0, "iterations": 0,
                    }  # fmt: skip
                case "Placed":
                    row["start_s"] = t if row["start_s"] is None else row["start_s"]
                    row["starts"] += 1
                    row |= {"status": "running", "worker_hosts": note["workers"], "server_hosts": note["servers"]}
                case "Preempted":
                    row["preemptions"] += 1
                case "Ended":
                    row |= {"status": note["status"], "end_s": t}
        for job, rows in self.rows.items():
            jobs[job]["iterations"] = len({row["iteration"] for row in rows})
        return pd.DataFrame(list(jobs.values())).astype({"submit_s": float, "start_s": float, "end_s": float})

    def write(self, path: Path, *, finished: bool = True, events: bool = False) -> Path:
        """Write the directory; unless ``finished``, as a kill leaves it. ``events``: the jobs' records have no rows."""
        path.mkdir(parents=True)
        about = {"num_jobs": sum(note["type"] == "Submitted" for _, note in self.notes), **self.cluster}
        content = meta(self.gpus, self.seed, **about) | {"run_id": path.name}
        (path / "meta.json").write_text(json.dumps(content))
        (path / "cluster.jsonl").write_text(self.lines())
        if finished:
            self.table().to_parquet(path / "jobs.parquet")
            columns = ["t_s", "host", "gpus_used", "cpu_cores", "in_bytes_per_s", "out_bytes_per_s"]
            if self.samples:
                pd.DataFrame(self.samples, columns=columns).to_parquet(path / "hosts.parquet")
        for job, rows in self.rows.items():
            folder = path / "jobs" / job
            folder.mkdir(parents=True)
            if events:
                (folder / "events.jsonl").write_text("".join(_event(seq, row) for seq, row in enumerate(rows)))
            else:
                pd.DataFrame(rows).astype({"cpu_s": "float64"}).to_parquet(folder / "iterations.parquet")
        return path


def _event(seq: int, row: dict[str, Any]) -> str:
    grad = {name: row[name] for name in ("worker", "iteration", "samples", "assigned_samples")}
    grad |= {"id": row["grad"], "incarnation": 0, "version": row["version_read"]}
    timings = {name: row[name] for name in ROW if row[name] is not None}
    event = {"type": "Arrived", "t": row["t"], "grad": grad, "timings": timings, "loss": 1.0}
    return (
        json.dumps({"seq": seq, "t": row["t"], "kind": "event", "event": event, "commands": [], "version": seq}) + "\n"
    )
