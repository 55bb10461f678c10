"""The compiled event loop on random small jobs of every strategy: the same files, to the byte, as by Python alone."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runtime.virtual.event_loop.loop as loop_module
import runtime.virtual.lab as lab_module
from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.cluster.device import DeviceProfile
from runtime.core.job import Job
from runtime.native import EVENTS, native
from runtime.record.columns import ColumnRecorder
from runtime.training.progress import Progress, load_progress
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.event_loop.loop import EventLoop
from runtime.virtual.tasks.model_state import NoLearner
from strategies.protocol import Strategy
from tests.contract.catalogue import NAMES, hurried
from tests.support.harness import make_job, make_run_spec
from tests.support.labs import run_alone
from tests.support.turns import by_turns

built = pytest.mark.skipif(native(EVENTS) is None, reason="was not compiled here")
SECONDS = st.sampled_from([0.0, 1e-4, 3e-4, 0.001, 0.0101, 0.03])
"""Few values, so that many things happen at the same time."""
FILES = ("events.jsonl", "iterations.parquet")
FIRST = ("asp", "lb_bsp", "antdt_nd", "star_h", "backup_workers")
EXAMPLES = 8
"""For each strategy: each example is two jobs."""


@st.composite
def costs_of(draw: st.DrawFn) -> Costs:
    times = ("control_s", "latency_s", "update_base_s", "decision_s", "evaluation_s", "sleep_overshoot_s", "launch_s")
    jitter = {"jitter_sigma": 0.2, "jitter_rho": draw(st.sampled_from([0.0, 0.3]))} if draw(st.booleans()) else {}
    known = {name: draw(SECONDS) for name in (*times, "data_base_s", "checkpoint_base_s")}
    each = {"update_per_byte_s": draw(st.sampled_from([0.0, 1e-7])), "data_per_sample_s": 1e-6}
    return Costs(compute_base_s=0.02, compute_per_sample_s=1e-4, **known, **each, **jitter)


@st.composite
def windows_of(draw: st.DrawFn) -> Disturbance:
    kind: Any = draw(st.sampled_from(["delay", "slowdown", "delay", "kill"]))
    targets = ["worker:0", "worker:1"] if kind == "kill" else ["worker:0", "worker:1", "server:0", "server:1"]
    start_s, length_s = draw(st.floats(0.0, 0.6)), draw(st.sampled_from([0.001, 0.05, 0.3]))
    magnitude = 1.0 if kind == "kill" else draw(SECONDS) + 1e-3
    target = draw(st.sampled_from(targets))
    return Disturbance(start_s=start_s, end_s=start_s + length_s, target=target, kind=kind, magnitude=magnitude)


@st.composite
def jobs_of(draw: st.DrawFn) -> Job:
    workers = draw(st.sampled_from([4, 5]))
    batch = workers * 8 + draw(st.sampled_from([0, 3]))
    return make_job(
        num_workers=workers,
        num_servers=draw(st.integers(2, 3)),
        global_batch_samples=batch,
        num_samples=batch * draw(st.integers(2, 40)) + draw(st.sampled_from([0, 5])),
        batches_per_shard=draw(st.sampled_from([1, 3])),
        epochs=draw(st.sampled_from([1, 3, None])),
        epoch_overlap=draw(st.booleans()),
        max_time_s=draw(st.sampled_from([0.7, 2.0])),
        eval_every_s=draw(st.sampled_from([None, 0.13])),
        checkpoint_every_s=draw(st.sampled_from([None, 0.21])),
        stuck_after_s=draw(st.sampled_from([None, 1.0])),
        lr=0.03,
        lr_at=lambda samples: 1.0 / (1.0 + samples),
    )


def play(run_dir: Path, job: Job, strategy: Strategy, about: dict[str, Any]) -> Outcome:
    run_dir.mkdir()
    record = ColumnRecorder(run_dir)
    spec = make_run_spec(job, strategy, record, run_dir, transport=about["transport"])
    learner = NoLearner(5000, Progress(load_progress("digits_mlp")) if about["progress"] else None)
    plan = Schedule(build_plan("test", 0, 1000.0, about["windows"]))
    outcome = run_alone(VirtualSession(spec, plan, learner, about["costs"], about["profile"]))
    record.close()
    return outcome


def both(place: Path, job: Job, make: Any, about: dict[str, Any], *, chunk: int = 1 << 10, patience: int = 16) -> int:
    """Play it with and without the loop, and compare; returns how many decisions the loop has carried out."""
    decided = 0
    with ExitStack() as changed:
        changed.enter_context(patch.object(loop_module, "CHUNK", chunk))
        changed.enter_context(patch.object(loop_module, "PATIENCE", (patience, 4096)))
        leave = EventLoop._leave

        def counted(self: EventLoop, **how: Any) -> None:
            nonlocal decided
            leave(self, **how)
            decided += self._decided

        changed.enter_context(patch.object(EventLoop, "_leave", counted))
        compiled = play(place / "compiled", job, make(), about)
    with patch.object(lab_module, "loop_of", lambda session: None):
        python = play(place / "python", job, make(), about)
    assert compiled == python
    for name in FILES:
        assert (place / "compiled" / name).read_bytes() == (place / "python" / name).read_bytes(), name
    return decided


@built
@pytest.mark.parametrize("name", by_turns([*FIRST, *(name for name in NAMES if name not in FIRST)], always=len(FIRST)))
@settings(max_examples=EXAMPLES)
@given(
    job=jobs_of(),
    costs=costs_of(),
    windows=st.lists(windows_of(), max_size=4),
    paced=st.booleans(),
    shm=st.booleans(),
    progress=st.booleans(),
    chunk=st.sampled_from([1, 3, 1 << 10]),
    patience=st.sampled_from([0, 0, 16]),
)
def test_the_same_files_of_any_small_job(
    name: str,
    job: Job,
    costs: Costs,
    windows: list[Disturbance],
    paced: bool,
    shm: bool,
    progress: bool,
    chunk: int,
    patience: int,
) -> None:
    about = {
        "costs": costs,
        "windows": windows,
        "profile": DeviceProfile(base_s=0.015, per_sample_s=1e-3) if paced else None,
        "transport": "shm" if shm else "tcp",
        "progress": progress,
    }
    with TemporaryDirectory() as directory:
        both(Path(directory), job, lambda: hurried(name), about, chunk=chunk, patience=patience)
