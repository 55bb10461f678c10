"""Turns a submission into the configuration of an ordinary job: the run's own settings, with the job's size and model.

Pure: from plain data to plain data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from math import ceil
from typing import Any

from injectors.arrivals.base import Submission
from runtime.config.instantiate import TARGET
from runtime.config.parse import MAX_JOB_S, MAX_SEED, NO_JOBS, Replay
from runtime.errors import ConfigError
from runtime.run.jobs.models import Model
from runtime.virtual.cluster.undisturbed import Undisturbed

NOMINAL = "workloads.nominal.Nominal"
MIN_ITERATIONS = 2
"""A data service divides a job into two shards per worker at least."""
SHARED = (
    "jobs",
    "policy",
    "placement",
    "prevention",
    "replay",
    "cluster",
    "runtime",
    "caption",
    "draw",
    "view",
    "hydra",
    "project",
)
"""Settings of the whole set, which no job can have for itself."""

Raw = dict[str, Any]


def seed_of(seed: int, number: int) -> int:
    """The seed of the job that is submitted as the ``number``-th: its name does not matter."""
    digest = hashlib.sha256(f"{seed} {number}".encode()).digest()
    return int.from_bytes(digest[:8], "little") % (MAX_SEED + 1)


def refuse_shared(submission: Submission) -> None:
    """Raise :class:`ConfigError` for a setting of one job that is the whole set's."""
    for line in submission.settings:
        name = line.lstrip("+~").partition("=")[0]
        if name.partition(".")[0].partition("@")[0].partition("/")[0] in SHARED:
            raise ConfigError(f"settings={line}: is the same for all jobs; set it on the command line")


def refuse_replaced(submission: Submission, model: Model | None) -> None:
    """Raise :class:`ConfigError` for a setting of one job in the place of which something else decides.

    ``model``: whose batch it has; None: the workload's.
    """
    decided = {"seed": "it follows from the run's seed and the job's place in the order of submission"}
    if submission.servers is not None:
        decided["topology.num_servers"] = f"the source gives the job servers={submission.servers}"
    if submission.iterations is not None or submission.duration_s is not None:
        decided["workload.epochs"] = "the source says how long the job is"
    if model is not None:
        decided["workload.global_batch_samples"] = f"model={submission.model} has a batch of its own"
    for line in submission.settings:
        if (why := decided.get(line.lstrip("+~").partition("=")[0])) is not None:
            raise ConfigError(f"settings={line}: has no effect, as {why}; leave it out")


def sized(raw: Mapping[str, Any], submission: Submission, model: Model | None, *, stand_in: bool = False) -> Raw:
    """The configuration of a job with its number of tasks, its model and its batch; its seed and length come later.

    ``stand_in``: the job trains the run's own workload, in the times of its model.
    """
    cluster, workload, topology = dict(raw["cluster"]), dict(raw["workload"]), dict(raw["topology"])
    each = ceil(workload["global_batch_samples"] / cluster["num_workers"])
    runtime = raw["runtime"]
    if model is not None:
        if stand_in:
            runtime = {
                **runtime,
                "stand_in": {"samples": model.batch_samples / each, "parameters": model.num_parameters},
            }
        else:
            each, workload["name"] = model.batch_samples, submission.model
        changes = model.cost_changes | dict(cluster["cost_changes"] or {})
        cluster |= {"costs": model.costs, "device": model.device, "devices": None, "nominal_iter_s": None}
        cluster["cost_changes"] = changes or None
    cluster["num_workers"] = submission.gpus
    if submission.servers is not None:
        topology["num_servers"] = submission.servers
    workload["global_batch_samples"] = each * submission.gpus
    alone = {"jobs": NO_JOBS, "view": "none", "draw": False}
    return {**raw, **alone, "cluster": cluster, "runtime": runtime, "workload": workload, "topology": topology}


def iterations_of(submission: Submission, alone: Undisturbed, replay: Replay, default: int | None) -> int:
    """Iterations of every worker; ``default``: if the source does not mention the job's length.

    Raises :class:`ConfigError` if nobody says how long it is.
    """
    if submission.iterations is not None:
        wanted = submission.iterations
    elif submission.duration_s is not None:
        wanted = round(min(submission.duration_s * replay.duration_scale / alone.iteration_s, 1e15))
    elif default is not None:
        wanted = default
    else:
        raise ConfigError("gives neither duration_s nor iterations, and workload.epochs=null gives no length, either")
    limit = replay.max_iterations
    return max(MIN_ITERATIONS, wanted if limit is None else min(wanted, limit))


def duration_s_of(submission: Submission, iterations: int, alone: Undisturbed, replay: Replay) -> float:
    """Seconds that a job of so many iterations takes alone.

    Where nothing trains, a source that gives both seconds and iterations says how long one takes; else the costs do.
    """
    if replay.detail != "gpus_only" or submission.iterations is None or submission.duration_s is None:
        return iterations * alone.iteration_s
    done_frac = min(1.0, iterations / submission.iterations)  # none is shorter than the fewest that train
    return submission.duration_s * replay.duration_scale * done_frac


def with_length(raw: Raw, iterations: int, num_parameters: int, alone: Undisturbed, replay: Replay) -> Raw:
    """A job without gradients of so many iterations; it is stopped when it takes far too long."""
    workload, limit_s = dict(raw["workload"]), replay.max_slowdown * iterations * alone.iteration_s
    samples = iterations * workload["global_batch_samples"]
    workload["task"] = {TARGET: NOMINAL, "num_samples": samples, "num_parameters": num_parameters}
    workload |= {"epochs": 1, "batches_per_shard": 1}
    if raw["backend"].get("progress") is None:
        workload |= {"target": None, "convergence": None}
    return {**raw, "workload": workload, "max_time_s": min(MAX_JOB_S, max(raw["max_time_s"], limit_s))}


def with_epochs(raw: Raw, iterations: int, num_samples: int, alone: Undisturbed, replay: Replay) -> Raw:
    """A job with gradients, whose data have so many samples: the number of epochs that is nearest."""
    workload, batch = dict(raw["workload"]), raw["workload"]["global_batch_samples"]
    workload["epochs"] = max(1, round(iterations * batch / num_samples))
    limit_s = replay.max_slowdown * alone.iteration_s * workload["epochs"] * num_samples / batch
    return {**raw, "workload": workload, "max_time_s": min(MAX_JOB_S, max(raw["max_time_s"], limit_s))}
