"""Virtual jobs that are like the job of a log, under any strategy (``python run.py advise``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from math import ceil, inf
from mmap import mmap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import yaml

from analysis.fitting.step_times import StepModel, repeated
from analysis.measures.block_intervals import FEWEST_BLOCKS, MOST_BLOCKS
from analysis.measures.ranking import Repeated, work_in_blocks
from injectors.plan import Disturbance, Plan, build_plan
from runtime.api import Outcome
from runtime.config.command_line import parse_arguments
from runtime.config.compose import composing
from runtime.config.parse import parse
from runtime.errors import ConfigError
from runtime.record.progress import Progress
from runtime.run.checks.job import check_job
from runtime.run.timing import Forgetful, outcome_of_job
from runtime.virtual.costs import SCHEMA, parse_costs
from stragglab.grids.forks import in_forks
from strategies.protocol import Apply, Arrived, Drop

DOING = "repeating the job under every strategy"
SOON_S = 1.0
"""After so many seconds the progress is printed."""
USUAL_S = 0.06
"""Seconds of a usual iteration for which the shipped settings in seconds (windows, cooldowns) are made."""
FIXED = (
    "runtime=virtual",
    "backend=none",
    "workload=criteo_scale",
    "workload.target=null",
    "eval_every_s=null",
    "checkpoint_every_s=null",
    "straggler=none",
    "view=none",
    "draw=false",
)
"""Settings of every job: only time matters."""
SLOW_TO_REPEAT = ("star_h", "sync_switch_elastic", "sync_switch", "coding_heter_aware", "lb_bsp")
"""Strategies whose virtual jobs take longest, so that they begin first."""
MOST_TIMES = 50.0
"""No strategy does so many times the logged steps while the history lasts."""
OF_TOPOLOGY = {"lgc": {"topology": "{topology}"}}
"""Settings of strategies that have to be given the topology."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A job to repeat.

    ``scale``: seconds of the virtual job per second of the log. ``kind``: how slow steps lengthen an iteration
    (``slowdown`` in proportion to its batch, ``delay`` whatever its batch). ``horizon_s``: of the log's seconds, when a
    job is given up.
    """

    model: StepModel
    topology: str
    num_servers: int
    batch: int
    num_samples: int
    epochs: int
    epoch_overlap: bool
    base_frac: float
    restart_s: float
    kind: str
    scale: float
    horizon_s: float

    @property
    def workers(self) -> int:
        """Number of ranks of the log."""
        return len(self.model.base_s)


class Counting(Forgetful):
    """Counts what a strategy does to the training; ``times_s``, ``grads``: gradients of every update."""

    keeps = "answers"

    def __init__(self, workers: int) -> None:
        self.read: dict[int, int] = {}
        self.staleness, self.used, self.dropped, self.updates = 0, 0, 0, 0
        self.of_worker: list[list[float]] = [[] for _ in range(workers)]
        self.times_s: list[float] = []
        self.grads: list[int] = []

    def event(self, t: float, event: object, commands: object, version: int, decide_us: float, state: object) -> None:
        if isinstance(event, Arrived):
            self.read[event.grad.id] = event.grad.version
            self.of_worker[event.grad.worker].append(t)
        orders: Sequence[object] = commands  # type: ignore[assignment]  # what a strategy answers
        applied = version - sum(isinstance(order, Apply) for order in orders)
        for order in orders:
            if isinstance(order, Apply):
                known = [self.read.pop(grad) for grad in order.grads if grad in self.read]
                self.staleness += sum(applied - read for read in known)
                self.used, self.updates, applied = self.used + len(known), self.updates + 1, applied + 1
                self.times_s.append(t)
                self.grads.append(len(known))
            elif isinstance(order, Drop):
                self.dropped += len(order.grads)


def configurations(replay: Replay, names: Sequence[str], costs: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """(configuration of each strategy, why others are not possible); ``costs``: the file of the cost model.

    Composed once per strategy; raises :class:`ConfigError` for a name that is not a strategy.
    """
    possible, refused = dict[str, Any](), dict[str, str]()
    for name, raw in _compose(replay.topology, tuple(names)).items():
        config = configure(replay, name, raw, costs)
        try:
            check_job(
                parse({**raw, "strategy": config["strategy"]})
            )  # of few workers: is it possible on this topology?
            check_job(parse(config))
        except ConfigError as error:
            refused[name] = str(error)
        else:
            possible[name] = config
    return possible, refused


@cache
def _compose(topology: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The composed configuration of every strategy; not to be changed."""
    with composing(parse_arguments([])) as composer:
        return {name: composer.raw([*FIXED, f"topology={topology}", f"strategy={name}"]) for name in names}


def configure(replay: Replay, name: str, composed: Mapping[str, Any], costs: Path) -> dict[str, Any]:
    """The composed configuration with the job's own numbers."""
    model, scale = replay.model, replay.scale
    raw: dict[str, Any] = json.loads(json.dumps(composed))
    if (settings := OF_TOPOLOGY.get(name)) and replay.topology != "ps":
        raw["strategy"] |= {key: value.format(topology=replay.topology) for key, value in settings.items()}
    raw["cluster"] |= {
        "num_workers": replay.workers,
        "device": None,
        "devices": {
            f"d{number}": {
                "workers": [rank for rank, each in enumerate(model.base_s) if each == base_s],
                "base_s": replay.base_frac * base_s * scale,
                "per_sample_s": (1.0 - replay.base_frac) * base_s * scale / replay.batch,
            }
            for number, base_s in enumerate(dict.fromkeys(model.base_s))
        },
        "costs": str(costs.resolve()),
    }
    if replay.topology == "ps":
        raw["topology"]["num_servers"] = replay.num_servers
    raw["workload"] |= {
        "global_batch_samples": replay.batch * replay.workers,
        "epochs": replay.epochs,
        "epoch_overlap": replay.epoch_overlap,
        "batches_per_shard": 1,
    }
    raw["workload"]["task"]["num_samples"] = replay.num_samples
    raw["max_time_s"] = replay.horizon_s * scale
    return raw


def cost_file(replay: Replay, about: str) -> str:
    """The text of the cost model (``cluster.costs``); the devices' speeds are in the cluster, not here."""
    model, scale = replay.model, replay.scale
    steps = 2 * (replay.workers - 1)
    values = {
        "jitter_sigma": min(model.sigma, 3.0),
        "jitter_rho": model.rho,
        "launch_s": replay.restart_s * scale,
    }
    if replay.topology == "ps":
        values |= {"latency_s": model.message_s / 2 * scale, "update_base_s": model.barrier_s * scale}
    elif steps:
        values["ring_step_s"] = (model.message_s + model.barrier_s) / steps * scale
    text = f"# {about}\n{yaml.safe_dump({'schema': SCHEMA, 'values': values}, sort_keys=False)}"
    parse_costs(text.encode())  # never write what cannot be read back
    return text


def plan_of(replay: Replay) -> Plan:
    """The disturbances of the logged history, which begins again where the job lasts longer."""
    windows = repeated(replay.model, replay.horizon_s)
    return build_plan("advice", 0, replay.horizon_s * replay.scale, _disturbances(replay, windows))


def _disturbances(replay: Replay, windows: pd.DataFrame) -> Iterator[Disturbance]:
    """Adjacent pieces of one window, cut by blocks, as one."""
    ordered = windows.sort_values(["rank", "start_s"], kind="stable").itertuples()
    for _, same in groupby(ordered, key=lambda one: (one.rank, one.excess_frac, one.of_machine, one.sent)):
        pieces = list(same)
        open_s, end_s = pieces[0].start_s, pieces[0].end_s
        for piece in pieces[1:]:
            if piece.start_s > end_s + 1e-9:
                yield _disturbance(replay, pieces[0], open_s, end_s)
                open_s = piece.start_s
            end_s = piece.end_s
        yield _disturbance(replay, pieces[0], open_s, end_s)


def _disturbance(replay: Replay, window: Any, start_s: float, end_s: float) -> Disturbance:
    """Return a disturbance whose slow sending takes longer by as many seconds, whatever the batch."""
    grows = replay.kind == "slowdown" and not window.sent
    return Disturbance(
        start_s=start_s * replay.scale,
        end_s=end_s * replay.scale,
        target=f"worker:{window.rank}",
        kind="slowdown" if grows else "delay",
        magnitude=window.excess_frac * (1.0 if grows else replay.model.base_s[window.rank] * replay.scale),
        of_machine=bool(window.of_machine),
    )


def jct_of(replay: Replay, config: Mapping[str, Any]) -> float:
    """Seconds of the log's clock that the job takes; infinite: it was given up."""
    outcome, _ = _run(replay, config, 0, lambda _: None)
    done = outcome.status == "done" and outcome.epochs_done == replay.epochs
    return outcome.t / replay.scale if done else inf


def lasting(replay: Replay) -> Replay:
    """The job with more data than it can pass while the logged history lasts, so that it ends with the history."""
    step = replay.batch * replay.workers
    steps = ceil(MOST_TIMES * replay.model.steps)
    return replace(replay, num_samples=steps * step, epochs=1, horizon_s=replay.model.length_s)


def repeat(
    replay: Replay, config: Mapping[str, Any], seed: int, reached: Callable[[float], None] = lambda _: None
) -> Repeated:
    """Repeat one strategy in a job that is :func:`lasting`; ``reached`` gets the fraction that is over."""
    end_s = replay.horizon_s * replay.scale
    outcome, counts = _run(replay, config, seed, lambda now_s: reached(min(1.0, now_s / end_s)))
    times, grads, samples = counts.times_s, np.array(counts.grads, "float64"), float(outcome.samples_applied)
    if config["strategy"].get("data") == "even":  # as much as its slowest worker: none can help with its part
        times = min(counts.of_worker, key=len)
        grads, samples = np.ones(len(times)), float(len(times) * replay.batch * replay.workers)
    blocks = max(FEWEST_BLOCKS, min(MOST_BLOCKS, replay.model.steps // 4))
    work = work_in_blocks(np.array(times), grads, end_s, blocks)
    return Repeated(
        work=work * (samples / max(float(work.sum()), 1e-12)),
        applied=float(outcome.samples_applied),
        staleness=counts.staleness / max(counts.used, 1),
        update_frac=outcome.samples_applied / max(outcome.version, 1) / (replay.batch * replay.workers),
        dropped_frac=counts.dropped / max(counts.used + counts.dropped, 1),
    )


def _run(
    replay: Replay, config: Mapping[str, Any], seed: int, tick: Callable[[float], None]
) -> tuple[Outcome, Counting]:
    job = check_job(parse({**config, "seed": seed}))
    counts = Counting(replay.workers)
    outcome = outcome_of_job(replace(job, plan=plan_of(replay)), counts, tick)
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    return outcome, counts


def repeat_all(
    replay: Replay, configs: Mapping[str, Any], seed: int, jobs: int, doing: str = DOING
) -> dict[str, Repeated]:
    """Repeat every strategy, in forks if ``jobs`` is more than one; progress goes to standard error."""
    if not configs:
        return {}
    names = sorted(configs, key=_longest_first)
    passed = np.frombuffer(mmap(-1, 8 * len(names)), "float64")  # forks write to it, too
    progress = Progress(len(names), doing, quiet_s=SOON_S)

    def repeated_job(name: str, said: Callable[[], None] = lambda: None) -> Repeated:
        def note_part(part: float) -> None:
            passed[names.index(name)] = part
            said()

        found = repeat(replay, configs[name], seed, note_part)
        note_part(1.0)
        return found

    def say() -> None:
        progress.reached(float(passed.mean()))

    try:
        if jobs <= 1:
            return {name: repeated_job(name, say) for name in names}
        return _in_forks(names, repeated_job, jobs, say)
    finally:
        progress.close()


def _in_forks(
    names: Sequence[str], repeated_job: Callable[[str], Repeated], jobs: int, meanwhile: Callable[[], None]
) -> dict[str, Repeated]:
    with TemporaryDirectory() as folder:

        def work(name: str) -> int:
            found = repeated_job(name)
            Path(folder, name).write_text(json.dumps([found.work.tolist(), *found[1:]]))
            return 0

        for name, code in in_forks(names, work, jobs, meanwhile):
            if code != 0:
                raise ConfigError(f"--strategies {name}: its virtual job failed (exit code {code}); leave it out")
        told = {name: json.loads(Path(folder, name).read_text()) for name in names}
    return {name: Repeated(np.array(work), *rest) for name, (work, *rest) in told.items()}


def _longest_first(name: str) -> int:
    return SLOW_TO_REPEAT.index(name) if name in SLOW_TO_REPEAT else len(SLOW_TO_REPEAT)
