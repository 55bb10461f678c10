"""``meta.json`` and the windows of ``plan.json`` as typed values: the fields in use, with defaults for older records.

Sizes have the bounds of settings, so that no number of a file makes a list that does not fit into memory.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

MAX_TASKS = 100_000
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Tasks = Annotated[int, Meta(ge=0, le=MAX_TASKS)]
Fields = dict[str, Any] | None


class AboutJob(msgspec.Struct, kw_only=True):
    """The job's part of the meta data, as far as anything is read of it."""

    strategy: str
    num_workers: Tasks
    num_samples: Count
    metric: str
    higher_is_better: bool
    strategy_fields: Fields = None
    straggler: str | None = None
    straggler_fields: Fields = None
    workload: str | None = None
    task_fields: Fields = None
    optimizer: Fields = None
    lr_schedule: Fields = None
    backend: str | None = None
    backend_fields: Fields = None
    topology: str | None = None
    transport: str | None = None
    transfer_bits: int | None = None
    collective: str | None = None
    blocks: Count | None = None
    late_worker: int | None = None
    bound_s: float | None = None
    cluster: str | None = None
    device: Fields = None
    scheduler_fields: Fields = None
    devices: Any = None
    data: str | None = None
    num_servers: Tasks | None = None
    num_replicas: Tasks | None = None
    validation_samples: Count | None = None
    global_batch_samples: Count | None = None
    num_parameters: Count | None = None
    batches_per_shard: Count | None = None
    epochs: Count | None = None
    epoch_overlap: bool | None = None
    max_time_s: float | None = None
    eval_every_s: float | None = None
    checkpoint_every_s: float | None = None
    target: float | None = None
    stop_at_target: bool | None = None
    target_evals: Tasks | None = None
    lr: float | None = None


class About(msgspec.Struct, kw_only=True):
    """The experiment, its place, and the versions."""

    runtime: str
    seed: Count
    job: AboutJob
    run_id: str = ""
    calibration: str | None = None
    fitted: list[str] | None = None
    started_at: str = ""
    plan_sha256: str = ""
    versions: dict[str, str] | None = None
    machine: Fields = None


class Host(msgspec.Struct, kw_only=True):
    """A host of a set of jobs."""

    gpus: Tasks | None
    number: Tasks | None = None
    cores: float | None = None
    link_bytes_per_s: float | None = None


class Hosts(msgspec.Struct, kw_only=True):
    """The machine of a set of jobs, as far as that is read."""

    hosts: list[Host]


class AboutSet(msgspec.Struct, kw_only=True):
    """How a set was run: the choices of its groups by their names."""

    jobs: str | None = None
    jobs_fields: Fields = None
    policy: str | None = None
    policy_fields: Fields = None
    placement: str | None = None
    placement_fields: Fields = None
    prevention: str | None = None
    prevention_fields: Fields = None
    cluster: str | None = None
    strategy: str | None = None
    straggler: str | None = None
    num_jobs: Count | None = None
    gpus: Count | None = None
    replay: Fields = None


class AboutCluster(msgspec.Struct, kw_only=True):
    """``meta.json`` of a set of jobs."""

    runtime: str
    seed: Count
    machine: Hosts
    cluster: AboutSet | None = None
    run_id: str = ""
    fitted: list[str] | None = None
    started_at: str = ""
    versions: dict[str, str] | None = None


class Window(msgspec.Struct):
    """One disturbance of the plan."""

    start_s: float
    end_s: float
    target: str
    kind: str
    magnitude: float
