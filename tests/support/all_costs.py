"""A job that writes rows, with every cost and disturbance there is on machines of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from injectors.patterns.combined import Combined
from injectors.patterns.persistent import Persistent
from injectors.patterns.slowdown import IterationSlowdown
from injectors.patterns.transient import Transient
from injectors.plan import ClusterShape
from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.cluster.device import DeviceProfile
from runtime.core.job import Job
from runtime.record.columns import ColumnRecorder
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.model_state import NoModelState
from strategies.protocol import Strategy
from tests.support.harness import make_job, make_run_spec
from tests.support.labs import run_alone

NUM_WORKERS, BATCH, ROUNDS = 6, 32, 40
ALL_COSTS = Costs(
    jitter_sigma=0.1,
    jitter_rho=0.4,
    control_s=3e-4,
    data_base_s=1e-4,
    data_per_sample_s=1e-6,
    latency_s=2e-4,
    transfer_per_byte_s=3e-10,
    update_base_s=4e-3,
    update_per_byte_s=4e-10,
    sleep_overshoot_s=1e-4,
)
PROFILE = DeviceProfile(base_s=0.02, per_sample_s=0.00125)
PATTERN = Combined(
    name="all",
    patterns={
        "transient": Transient(period_s=2.0, duration_s=0.9, sleep_s=0.2, offset="uniform"),
        "slow": IterationSlowdown(slot_s=0.1, probability=0.1),
        "server": Persistent(name="server", targets=("server:1",), start_s=1.0, sleep_s=0.01),
    },
)


def job_of(**changes: Any) -> Job:
    """The job, by default ``NUM_WORKERS`` workers for ``ROUNDS`` rounds."""
    sizes = {
        "num_workers": NUM_WORKERS,
        "num_servers": 2,
        "num_samples": NUM_WORKERS * BATCH * ROUNDS,
        "global_batch_samples": NUM_WORKERS * BATCH,
        "epochs": 1,
        "max_time_s": 1000.0,
    }
    return make_job(**{**sizes, **changes})


def play(run_dir: Path, job: Job, strategy: Strategy, costs: Costs) -> Outcome:
    """Run it into ``run_dir``."""
    run_dir.mkdir()
    recorder = ColumnRecorder(run_dir)
    spec = make_run_spec(job, strategy, recorder, run_dir)
    shape = ClusterShape(num_workers=job.num_workers, num_servers=job.num_servers, base_iter_s=0.06)
    plan = Schedule(PATTERN.plan(shape, 1000.0, 3))
    outcome = run_alone(VirtualSession(spec, plan, NoModelState(5000, None), costs, PROFILE))
    recorder.close()
    return outcome
