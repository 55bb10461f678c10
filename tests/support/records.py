"""Synthetic records after ``docs/record.md``, written without any code of ``analysis`` or ``runtime``.

:class:`Story` writes a record line by line; :class:`Simulation` tells whole stories with it (an event heap, paced
workers).
"""

from __future__ import annotations

import hashlib
import heapq
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Disturbance = dict[str, Any]


def disturbance(start_s: float, end_s: float, target: str, magnitude: float, kind: str = "delay") -> Disturbance:
    return {"start_s": start_s, "end_s": end_s, "target": target, "kind": kind, "magnitude": magnitude}


class Story:
    """A record in the making: give it events and notes, then :meth:`write` it."""

    def __init__(
        self,
        strategy: str = "bsp",
        *,
        seed: int = 0,
        runtime: str = "live",
        plan: Sequence[Disturbance] = (),
        fields: dict[str, Any] | None = None,
        **job: Any,
    ) -> None:
        self.lines: list[dict[str, Any]] = []
        self.version = 0
        self.plan: dict[str, Any] = {
            "schema": 1,
            "pattern": "test",
            "seed": seed,
            "horizon_s": 120.0,
            "disturbances": list(plan),
        }
        identity = hashlib.sha256(json.dumps([strategy, seed, fields, job], sort_keys=True).encode()).hexdigest()
        self.meta: dict[str, Any] = {
            "schema": 1,
            "run_id": identity[:16],
            "runtime": runtime,
            "calibration": None if runtime == "live" else "cal-7",
            "started_at": "2024-11-21T08:00:00+00:00",
            "seed": seed,
            "plan_sha256": hashlib.sha256(json.dumps(self.plan).encode()).hexdigest(),
            "versions": {"stragglab": "0.1.0", "python": "3.11", "numpy": "2", "torch": "2"},
            "machine": {"hostname": "lab", "kernel": "6.1", "cpu": "Test CPU", "num_cores": 2, "memory_bytes": 8 << 30},
            "job": {
                "strategy": strategy,
                "strategy_fields": fields or {},
                "straggler": "transient",
                "workload": "digits",
                "backend": "torch",
                "topology": "ps",
                "transport": "tcp",
                "num_workers": 4,
                "num_servers": 1,
                "num_samples": 128,
                "num_parameters": 9610,
                "global_batch_samples": 32,
                "epochs": 2,
                "max_time_s": 120.0,
                "metric": "accuracy",
                "higher_is_better": True,
                "target": 0.9,
                "data": "dynamic",
                "num_shards": 16,
                **job,
            },
        }

    def event(self, t: float, type: str, commands: Iterable[dict[str, Any]] = (), **fields: Any) -> None:
        """An event line; ``version`` follows from the Apply commands unless a ``line_version`` is given."""
        commands = list(commands)
        self.version += sum(command["type"] == "Apply" for command in commands)
        self.version = fields.pop("line_version", self.version)
        body = {"type": type, "t": t, **fields}
        self._line(t, "event", event=body, commands=commands, version=self.version, decide_us=10.0)

    def note(self, t: float, type: str, **fields: Any) -> None:
        self._line(t, "note", note={"type": type, **fields})

    def started(self) -> None:
        workers = list(range(self.meta["job"]["num_workers"]))
        batch = self.meta["job"]["global_batch_samples"] // len(workers)
        self.event(0.0, "Started", workers=workers, batch_samples=[batch] * len(workers), num_servers=1)

    def arrived(self, t: float, worker: int, grad: int, commands: Iterable[dict[str, Any]] = (), **given: Any) -> None:
        """An Arrived line; ``given`` are fields of the gradient or the timings."""
        handle = {"id": grad, "worker": worker, "incarnation": 0, "iteration": 0, "version": self.version, "samples": 8}
        handle |= {key: given.pop(key) for key in list(given) if key in handle or key == "assigned_samples"}
        handle.setdefault("assigned_samples", handle["samples"])
        line = {"line_version": given.pop("line_version")} if "line_version" in given else {}
        self.event(
            t, "Arrived", commands, **line, grad=handle, loss=given.pop("loss", 1.0), sqr_norm=2.0, timings=given
        )

    def evaluated(self, asked_s: float, value: float | None, t: float | None = None) -> None:
        at = asked_s if t is None else t
        self.event(at, "Evaluated", version=self.version, asked_s=asked_s, metrics={self.meta["job"]["metric"]: value})

    def finished(self, t: float, status: str = "done", **fields: Any) -> None:
        self.note(t, "Finished", status=status, reason="", version=self.version, memory={}, **fields)

    def _line(self, t: float, kind: str, **fields: Any) -> None:
        self.lines.append({"seq": len(self.lines), "t": t, "kind": kind, **fields})

    def write(self, path: Path, *, torn: str = "", keep: int | None = None) -> Path:
        """Write the directory; ``keep`` only the first lines (the run was killed), then a ``torn`` one."""
        path.mkdir(parents=True, exist_ok=True)
        (path / "meta.json").write_text(json.dumps(self.meta))
        (path / "plan.json").write_text(json.dumps(self.plan))
        lines = "".join(json.dumps(line) + "\n" for line in self.lines[:keep])
        (path / "events.jsonl").write_text(lines + torn)
        return path


def compute(worker: int, num_samples: int = 8) -> dict[str, Any]:
    return {"type": "Compute", "worker": worker, "num_samples": num_samples, "accum": 1}


def apply(*grads: int) -> dict[str, Any]:
    return {"type": "Apply", "grads": list(grads), "weights": [0.1] * len(grads), "lr_scale": 1.0}


def drop(*grads: int, requeue: bool = True) -> dict[str, Any]:
    return {"type": "Drop", "grads": list(grads), "requeue": requeue}


def score(grad: int, *, refresh: bool = False) -> dict[str, Any]:
    return {"type": "Score", "grad": grad, "refresh": refresh}


# ---- whole runs -----------------------------------------------------------------------------------------------------

Work = dict[str, Any]


def learning_curve(rate: float = 0.05, top: float = 0.98) -> Callable[[int], float]:
    """Score of a version: approaches ``top``."""
    return lambda version: top - (top - 0.1) * math.exp(-rate * version)


class Simulation:
    """Paced workers under ``bsp``, ``asp`` or ``backup`` (the slowest gradient of a round is dropped).

    ``lose`` is (worker, lost at, joined at), ``rollback`` (server lost at, restored at, version restored to); seconds.
    ``duration(worker, iteration)`` is the computing time of an undisturbed iteration, ``score(version)`` the metric.
    """

    def __init__(
        self,
        story: Story,
        rule: str,
        *,
        duration: Callable[[int, int], float] | None = None,
        score: Callable[[int], float] | None = None,
        eval_every_s: float = 0.1,
        lose: tuple[int, float, float] | None = None,
        rollback: tuple[float, float, int] | None = None,
        server_busy_s: float = 0.002,
    ) -> None:
        job = story.meta["job"]
        self.story, self.rule, self.score = story, rule, score or learning_curve()
        self.duration = duration or (lambda worker, _: 0.05 + 0.001 * worker)
        self.eval_every_s, self.server_busy_s = eval_every_s, server_busy_s
        self.num_workers, self.num_samples, self.epochs = job["num_workers"], job["num_samples"], job["epochs"]
        self.batch = job["global_batch_samples"] // (self.num_workers - (rule == "backup"))
        self.heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.t, self.order, self.next_grad = 0.0, 0, 0
        self.version, self.applied, self.epoch, self.free = 0, 0, 0, self.num_samples
        self.here = set(range(self.num_workers))
        self.busy: dict[int, Work] = {}
        self.waiting: dict[int, Work] = {}
        self.held: list[int] = []
        self.iterations = [0] * self.num_workers
        self.incarnation = [0] * self.num_workers
        self.ready_s = [0.0] * self.num_workers
        self.ended = self.halted = False
        self.history = {0: (0, 0)}
        self.at(eval_every_s, self.evaluate)
        if lose:
            self.at(lose[1], self.lost, lose[0])
            self.at(lose[2], self.joined, lose[0])
        if rollback:
            self.at(rollback[0], self.server_lost)
            self.at(rollback[1], self.restored, rollback[2])

    def at(self, t: float, what: Callable[..., None], *args: Any) -> None:
        self.order += 1
        heapq.heappush(self.heap, (t, self.order, what, args))

    def run(self) -> Story:
        self.story.note(0.0, "EpochStarted", epoch=0)
        self.story.started()
        self.story.lines[-1]["commands"] = [self.issue(worker) for worker in sorted(self.here)]
        self.story.evaluated(0.0, self.score(0))
        while not self.ended:
            self.t, _, what, args = heapq.heappop(self.heap)
            what(*args)
        self.story.evaluated(self.t, self.score(self.version))
        shards = self.story.meta["job"]["num_shards"] * self.epochs
        done: dict[str, Any] = {"epochs_done": self.epoch, "samples_applied": self.applied}
        self.story.finished(self.t, **done, shards_done=shards, shards_total=shards)
        return self.story

    def issue(self, worker: int) -> dict[str, Any]:
        """A Compute, begun at once or held until there is data."""
        if self.free:
            self.begin(worker)
        else:
            self.held.append(worker)
            self.story.note(self.t, "Starved", worker=worker)
        return compute(worker, self.batch)

    def begin(self, worker: int) -> None:
        samples = min(self.batch, self.free)
        self.free -= samples
        windows = [d for d in self.story.plan["disturbances"] if d["target"] == f"worker:{worker}"]
        injected_s = sum((d["magnitude"] for d in windows if d["start_s"] <= self.t < d["end_s"]), 0.0)
        timings = {
            "wait_s": self.t - self.ready_s[worker],
            "pull_s": 0.001,
            "data_s": 0.0005,
            "compute_s": self.duration(worker, self.iterations[worker]) + injected_s,
            "send_s": 0.002,
            "injected_s": injected_s,
            "overrun_s": 0.0,
        }
        work = {"grad": self.next_grad, "version": self.version, "samples": samples, "timings": timings}
        self.next_grad += 1
        self.busy[worker] = work
        self.at(
            self.t + sum(timings[part] for part in ("pull_s", "data_s", "compute_s", "send_s")),
            self.arrive,
            worker,
            work,
        )

    def arrive(self, worker: int, work: Work) -> None:
        """A gradient is there, unless its worker or a server died meanwhile."""
        if self.busy.get(worker) is not work:
            return
        del self.busy[worker]
        given = {key: work[key] for key in ("version", "samples")} | work["timings"]
        given |= {"iteration": self.iterations[worker], "incarnation": self.incarnation[worker]}
        self.iterations[worker] += 1
        self.ready_s[worker] = self.t
        commands = self.decide(worker, work)
        self.story.arrived(self.t, worker, work["grad"], commands, assigned_samples=self.batch, **given)
        self.book_keeping(commands)

    def decide(self, worker: int, work: Work) -> list[dict[str, Any]]:
        if self.rule == "backup" and work["version"] < self.version:
            self.free += work["samples"]
            return [drop(work["grad"]), self.issue(worker)]
        self.waiting[worker] = work
        return self.update()

    def update(self) -> list[dict[str, Any]]:
        """One update if enough gradients wait (or nothing else can come)."""
        need = {"asp": 1, "bsp": len(self.here), "backup": self.num_workers - 1}[self.rule]
        if not self.waiting or (len(self.waiting) < need and self.busy):
            return []
        used, self.waiting = dict(sorted(self.waiting.items())), {}
        self.version += 1
        self.applied += sum(work["samples"] for work in used.values())
        if self.applied == self.num_samples * (self.epoch + 1):
            self.next_epoch()
        idle = [worker for worker in used if worker in self.here] if not self.ended else []
        idle += (
            [] if self.rule == "asp" or self.ended else sorted(self.here - set(used) - set(self.busy) - set(self.held))
        )
        return [apply(*(work["grad"] for work in used.values())), *(self.issue(worker) for worker in idle)]

    def next_epoch(self) -> None:
        self.epoch += 1
        self.ended = self.epoch == self.epochs
        if self.ended:
            return
        self.story.note(self.t, "EpochStarted", epoch=self.epoch)
        self.free = self.num_samples
        held, self.held = self.held, []
        for worker in held:
            self.begin(worker)

    def book_keeping(self, commands: list[dict[str, Any]]) -> None:
        """Notes of the server, and the history that a rollback needs."""
        if not any(command["type"] == "Apply" for command in commands):
            return
        self.history[self.version] = (self.applied, self.epoch)
        if self.version % 5 == 0:
            windows = [d for d in self.story.plan["disturbances"] if d["target"] == "server:0"]
            injected_s = 5 * sum((d["magnitude"] for d in windows if d["start_s"] <= self.t < d["end_s"]), 0.0)
            busy_s = 5 * self.server_busy_s + injected_s
            self.story.note(
                self.t, "Updated", server=0, version=self.version, updates=5, busy_s=busy_s, injected_s=injected_s
            )

    def evaluate(self) -> None:
        self.story.evaluated(self.t, self.score(self.version))
        self.at(self.t + self.eval_every_s, self.evaluate)

    def lost(self, worker: int) -> None:
        """The worker's process dies; its samples return to the queue."""
        self.here.discard(worker)
        self.free += self.busy.pop(worker, {"samples": 0})["samples"]
        incarnation = self.incarnation[worker]
        commands = self.update()
        self.story.event(
            self.t, "Lost", commands, worker=worker, incarnation=incarnation, reason="killed", restarting=True
        )
        self.book_keeping(commands)

    def joined(self, worker: int) -> None:
        """It is back: at once at work (asp), or from the next round on."""
        self.here.add(worker)
        self.incarnation[worker] += 1
        self.ready_s[worker] = self.t
        commands = [self.issue(worker)] if self.rule == "asp" else []
        self.story.event(self.t, "Joined", commands, worker=worker, incarnation=self.incarnation[worker])

    def server_lost(self) -> None:
        """Everything outstanding is void."""
        self.busy, self.waiting, self.held = {}, {}, []
        self.story.event(self.t, "ServerLost", server=0, incarnation=0, reason="killed")

    def restored(self, version: int) -> None:
        """Roll back to an old version; all workers start again."""
        self.version = self.story.version = version
        self.applied, self.epoch = self.history[version]
        self.free = self.num_samples * (self.epoch + 1) - self.applied
        commands = [self.issue(worker) for worker in sorted(self.here)]
        self.story.event(self.t, "Restored", commands, version=version, workers=sorted(self.here))


def bsp_story(**given: Any) -> Story:
    """Four workers, worker 1 delayed by 0.1 s per iteration from 0.1 s to 0.3 s; 2 epochs of 4 updates."""
    story = Story("bsp", **{"plan": [disturbance(0.1, 0.3, "worker:1", 0.1)], **given})
    return Simulation(story, "bsp").run()


def asp_story(**given: Any) -> Story:
    """The same, asynchronously: 32 updates of one gradient each."""
    story = Story("asp", **{"plan": [disturbance(0.1, 0.3, "worker:1", 0.1)], **given})
    return Simulation(story, "asp").run()


def backup_story(**given: Any) -> Story:
    """The same with one backup worker: late gradients are dropped, their samples come back."""
    given = {"num_samples": 120, "global_batch_samples": 30, "plan": [disturbance(0.1, 0.3, "worker:1", 0.1)], **given}
    return Simulation(Story("backup_workers", **given), "backup").run()


def churn_story(**given: Any) -> Story:
    """BSP in which worker 2 dies at 0.08 s and is back at 0.2 s."""
    return Simulation(Story("bsp", **given), "bsp", lose=(2, 0.08, 0.2)).run()


def rollback_story(**given: Any) -> Story:
    """BSP whose server dies at 0.31 s (version 5) and comes back at 0.4 s with version 3."""
    return Simulation(Story("bsp", **given), "bsp", rollback=(0.31, 0.4, 3)).run()
