"""The fast path: the same rows, to the bit, as the full runtime, and only where they are known beforehand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
import pytest

import runtime.virtual.fast_path.waves as waves_module
import runtime.virtual.runtime as virtual
from injectors.patterns.combined import Combined
from injectors.patterns.persistent import Persistent
from injectors.patterns.slowdown import IterationSlowdown
from injectors.patterns.transient import Transient
from injectors.plan import ClusterShape, Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.api import Outcome, RunSpec
from runtime.cluster.device import DeviceProfile
from runtime.config.parse import parse
from runtime.core.job import Job
from runtime.native import WAVES, native
from runtime.record.columns import ColumnRecorder
from runtime.run.checks.job import check_job
from runtime.run.job import run_job
from runtime.training.progress import Progress, load_progress
from runtime.virtual import VirtualRuntime
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.fast_path.clocks import Clocks
from runtime.virtual.fast_path.regular import RegularRun, hint_of
from runtime.virtual.fast_path.rounds import Rounds
from runtime.virtual.fast_path.waves import Waves
from runtime.virtual.tasks.jitter import BLOCK, Jitter
from runtime.virtual.tasks.model_state import NoLearner
from strategies.basic.asp import ASP
from strategies.basic.backup_workers import BackupWorkers
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.parts.gates import BoundedGate
from strategies.protocol import Grad, Strategy
from tests.support.clusters import cluster_of
from tests.support.harness import make_job, make_run_spec
from tests.support.labs import run_alone
from tests.support.long_tests import long_after, rows_long_after
from tests.support.runs import ROOT
from tests.unit.run.test_preflight import composed

TEXT = (ROOT / "docs" / "virtual.md").read_text()
NUM_WORKERS, BATCH, ROUNDS = 6, 32, 40
STRATEGIES = {
    "bsp": BSP(),
    "bsp-even": BSP(data="even"),
    "asp": ASP(data="even"),
    "asp-dynamic": ASP(data="dynamic", lr_rule="unit"),
    "ssp-0": SSP(bound=0),
    "ssp-1": SSP(bound=1),
    "ssp-3": SSP(bound=3, data="even"),
    "ssp-none": SSP(bound=None),
}
COSTS = {
    "ideal": Costs(),
    "all": Costs(
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
    ),
    "slow coordinator": Costs(decision_s=4e-3, control_s=1e-3, jitter_sigma=0.05),
    "first score and checkpoint": Costs(
        decision_s=4e-3, evaluation_s=0.0615, control_s=1e-3, checkpoint_base_s=0.01, disk_bytes_per_s=1e6
    ),
    "overrun": Costs(
        compute_base_s=0.07, compute_per_sample_s=1e-4, stage_per_byte_s=1e-6, jitter_sigma=0.3, update_base_s=0.02
    ),
}
LOOPS = {"python": None} | ({} if (compiled := native(WAVES)) is None else {"compiled": compiled})
"""The loops of asynchronous jobs: None is the one in Python, which is all there is without a compiler."""
DETAILS = ("EpochStarted", "Held", "Checkpointed")
"""Notes that only the full runtime makes (a checkpoint of a job that needs none costs nothing)."""
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
    sizes = {
        "num_workers": NUM_WORKERS,
        "num_servers": 2,
        "num_samples": NUM_WORKERS * BATCH * ROUNDS,
        "global_batch_samples": NUM_WORKERS * BATCH,
        "epochs": 1,
        "max_time_s": 1000.0,
    }
    return make_job(**{**sizes, **changes})


def play(run_dir: Path, job: Job, strategy: Strategy, costs: Costs, *, full: bool, **more: Any) -> Outcome:
    """One job into ``run_dir``, by the full runtime or the short way."""
    run_dir.mkdir()
    recorder = ColumnRecorder(run_dir)
    spec = make_run_spec(
        job, strategy, recorder, run_dir, columns=recorder.rows, transport=more.get("transport", "tcp")
    )
    shape = ClusterShape(num_workers=job.num_workers, num_servers=job.num_servers, base_iter_s=0.06)
    actuator = Schedule(more["plan"] if "plan" in more else PATTERN.plan(shape, 1000.0, 3))
    progress = Progress(load_progress("digits_mlp")) if more.get("progress") else None
    profile = more.get("profile", PROFILE)
    learner = NoLearner(5000, progress)
    if full:
        outcome = run_alone(VirtualSession(spec, actuator, learner, costs, profile))
    else:
        outcome = short(spec, recorder, actuator, learner, costs, profile).run()
    recorder.close()
    return outcome


def short(spec: RunSpec, recorder: ColumnRecorder, actuator: Any, learner: Any, *rest: Any) -> RegularRun:
    costs, profile = rest
    staleness_hint = hint_of(spec.job, spec.strategy, costs, scored=learner.progress is not None)
    assert staleness_hint is not None
    kind = Rounds if staleness_hint.bound == 0 else Waves
    return kind(spec, recorder.rows, actuator, learner, costs, profile, staleness_hint)


def both(tmp_path: Path, job: Job, strategy: Strategy, costs: Costs, **more: Any) -> tuple[Path, Path]:
    """Run it in full and the short way, by each loop, and compare what is recorded; returns two directories."""
    outcome = play(tmp_path / "full", job, strategy, costs, full=True, **more)
    full = tmp_path / "full"
    for name, module in LOOPS.items():
        fast = tmp_path / name
        with patch.object(waves_module, "native", lambda _, found=module: found):
            assert play(fast, job, strategy, costs, full=False, **more) == outcome
        assert (full / "iterations.parquet").read_bytes() == (fast / "iterations.parquet").read_bytes()
        assert lines_of(full) == lines_of(fast)
    return full, fast


def lines_of(run_dir: Path) -> list[str]:
    """What else is recorded, without the numbers of the lines (their order at one moment may differ)."""
    lines = (run_dir / "events.jsonl").read_text().splitlines()
    return sorted(line.partition(",")[2] for line in lines if not any(f'"{name}"' in line for name in DETAILS))


PAIRS = [
    pytest.param(name, costs, marks=[pytest.mark.long] if (number + place) % 5 else [])
    for number, name in enumerate(STRATEGIES)
    for place, costs in enumerate(COSTS)
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("name", "costs"), PAIRS)
def test_the_same_rows(tmp_path: Path, name: str, costs: str) -> None:
    full, _ = both(tmp_path, job_of(), STRATEGIES[name], COSTS[costs])
    assert pq.read_metadata(full / "iterations.parquet").num_rows == NUM_WORKERS * ROUNDS


@pytest.mark.long(like="test_the_same_rows")
@pytest.mark.parametrize("name", long_after(["ssp-1", "bsp", "asp"], always=1))
def test_the_same_rows_in_other_jobs(tmp_path: Path, name: str) -> None:
    strategy, costs = STRATEGIES[name], COSTS["all"]
    (tmp_path / "shm").mkdir()
    both(tmp_path / "shm", job_of(), strategy, costs, transport="shm")
    (tmp_path / "scored").mkdir()
    both(tmp_path / "scored", job_of(eval_every_s=0.37, lr=0.03), strategy, costs, progress=True)
    (tmp_path / "cut").mkdir()
    both(tmp_path / "cut", job_of(max_time_s=1.5), strategy, costs)
    (tmp_path / "one").mkdir()
    one = job_of(num_workers=1, num_samples=BATCH * 10, global_batch_samples=BATCH)
    both(tmp_path / "one", one, strategy, costs)


@pytest.mark.parametrize("name", ["bsp", "ssp-1"])
def test_a_progress_model_learns_at_the_rate_of_the_schedule(tmp_path: Path, name: str) -> None:
    decays = job_of(eval_every_s=0.37, lr=0.03, lr_at=lambda samples: 1.0 / (1.0 + samples))
    _, fast = both(tmp_path, decays, STRATEGIES[name], COSTS["all"], progress=True)
    (tmp_path / "constant").mkdir()
    _, constant = both(
        tmp_path / "constant", job_of(eval_every_s=0.37, lr=0.03), STRATEGIES[name], COSTS["all"], progress=True
    )
    assert lines_of(fast) != lines_of(constant)


def test_servers_with_different_shares(tmp_path: Path) -> None:
    full, _ = both(tmp_path, job_of(server_shares=(3.0, 1.0)), BSP(), COSTS["all"])
    assert '"server:0":3.0' in (full / "events.jsonl").read_text()


def test_beyond_a_block_of_jitter(tmp_path: Path) -> None:
    job = job_of(num_workers=2, num_samples=2 * BATCH * (BLOCK + 100), global_batch_samples=2 * BATCH)
    for strategy in (BSP(), SSP(bound=2)):
        (place := tmp_path / type(strategy).__name__).mkdir()
        both(place, job, strategy, Costs(jitter_sigma=0.05, jitter_rho=0.3))


def test_blocks_of_jitter_of_any_size() -> None:
    """The fast path draws fewer at first, since a short job may not need 1024 for each of many workers."""
    whole, parts = (Jitter(0, 3, 0.1, 0.4) for _ in range(2))
    found = np.concatenate([parts.block(count) for count in (1, 7, 700, 64, BLOCK, 252)])
    np.testing.assert_array_equal(found, np.concatenate([whole.block(), whole.block()]))


@pytest.mark.long(like="test_the_same_rows")
def test_several_epochs(tmp_path: Path) -> None:
    (tmp_path / "bsp").mkdir()
    both(tmp_path / "bsp", job_of(epochs=3), BSP(), COSTS["all"])
    (tmp_path / "asp").mkdir()
    both(tmp_path / "asp", job_of(epochs=3, epoch_overlap=True), ASP(data="even"), COSTS["all"])


def test_other_costs_give_other_rows(tmp_path: Path) -> None:
    """The comparison is not blind."""
    play(tmp_path / "a", job_of(), BSP(), COSTS["all"], full=True)
    play(tmp_path / "b", job_of(), BSP(), Costs(control_s=3e-4), full=False)
    assert (tmp_path / "a" / "iterations.parquet").read_bytes() != (tmp_path / "b" / "iterations.parquet").read_bytes()


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_the_clocks_are_the_gate(bound: int) -> None:
    """On an arbitrary order of arrivals; a gate of bound 0 merges, which :class:`Waves` is not asked to do."""
    clocks, gate = Clocks(4, bound), BoundedGate(bound=bound)
    gate.begin(range(4), 0)
    running, order = [0, 1, 2, 3], [7, 3, 11, 5, 2, 13, 1, 4]
    for step in range(200):
        worker = running.pop(order[step % len(order)] % len(running))
        grad = Grad(id=step, worker=worker, incarnation=0, iteration=0, version=0, samples=1, assigned_samples=1)
        go = clocks.tick(worker)
        assert tuple(go) == gate.arrived(grad).go
        running += go


NOT_REGULAR = {
    "ragged epochs": {"num_samples": NUM_WORKERS * BATCH * ROUNDS + 1},
    "unequal batches": {"global_batch_samples": 4 * BATCH},
    "no end": {"epochs": None},
    "shards of two batches": {"batches_per_shard": 2},
    "stops at the target": {"stop_at_target": True},
    "stops at convergence": {"stop_at_convergence": True},
}


@pytest.mark.parametrize("changes", NOT_REGULAR.values(), ids=NOT_REGULAR)
def test_jobs_that_need_the_full_runtime(changes: dict[str, Any]) -> None:
    assert hint_of(job_of(), BSP(), Costs(), scored=False) is not None
    assert hint_of(job_of(**changes), BSP(), Costs(), scored=False) is None


def test_what_else_needs_the_full_runtime() -> None:
    assert hint_of(job_of(), BackupWorkers(), Costs(), scored=False) is None
    assert hint_of(job_of(), BSP(), Costs(link_bytes_per_s=1e9), scored=False) is None
    assert hint_of(job_of(eval_every_s=1.0), BSP(), Costs(decision_s=1e-5), scored=False) is None
    assert hint_of(job_of(checkpoint_every_s=1.0), BSP(), Costs(checkpoint_base_s=1e-3), scored=False) is None
    late = Costs(evaluation_s=1e-3)
    assert hint_of(job_of(), BSP(), late, scored=True) is None
    assert hint_of(job_of(), BSP(), late, scored=False) is not None, "nothing is evaluated"
    assert hint_of(job_of(epochs=2), ASP(data="dynamic"), Costs(), scored=False) is None
    assert hint_of(job_of(epochs=2), BSP(), Costs(), scored=False) is not None


@pytest.mark.long(like="test_the_same_rows")
@pytest.mark.parametrize(
    ("name", "loops"), rows_long_after([("bsp", "Rounds"), ("ssp", "Waves"), ("asp", "Waves")], always=1)
)
def test_the_documented_line_goes_the_short_way(name: str, loops: str, tmp_path: Path, monkeypatch: Any) -> None:
    """With the cost model that is the default, and to the same rows as the full runtime (fewer workers than there)."""
    taken: list[str] = []
    kind = getattr(virtual, loops)
    monkeypatch.setattr(kind, "run", lambda self: taken.append(loops) or RegularRun.run(self))
    command = re.search(r"python run\.py (runtime=virtual backend=none record=iterations .*?)\n```", TEXT, re.DOTALL)
    assert command is not None
    line = " ".join(command[1].replace("\\\n", " ").split()).replace("1000000", "12000").replace("=1000 ", "=60 ")
    [(_, raw)] = composed(f"{line} strategy={name} view=none")
    assert run_job(check_job(parse(raw)), tmp_path / "short").exit_code == 0
    assert taken == [loops]
    monkeypatch.setattr(virtual, "hint_of", lambda *about, **more: None)
    assert run_job(check_job(parse(raw)), tmp_path / "full").exit_code == 0
    assert taken == [loops]
    short, full = ((tmp_path / way / "iterations.parquet").read_bytes() for way in ("short", "full"))
    assert short == full


@pytest.mark.parametrize("kind", ["cpu", "bandwidth", "cut", "pause", "kill"])
def test_what_comes_in_between_needs_the_full_runtime(kind: Any) -> None:
    assert hint_of(job_of(), BSP(), Costs(), scored=False, kinds=frozenset({"delay", "slowdown"})) is not None
    assert hint_of(job_of(), BSP(), Costs(), scored=False, kinds=frozenset({"delay", kind})) is None


HOSTS = {"count": 2, "cpu_cores": 4.0, "link_mbps": 1000}
KILL = Disturbance(start_s=0.1, end_s=0.3, target="worker:0", kind="kill", magnitude=1)


@pytest.mark.parametrize(
    ("about", "windows"),
    [({}, [KILL]), ({"hosts": HOSTS}, []), ({"worker_cores": 1.0}, [])],
    ids=["kill", "hosts", "cores"],
)
def test_the_runtime_takes_the_long_way_where_it_must(
    about: dict[str, Any], windows: list[Disturbance], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(RegularRun, "run", lambda self: pytest.fail("the short way"))
    recorder = ColumnRecorder(tmp_path)
    job = job_of(num_samples=NUM_WORKERS * BATCH * 2)
    runtime = VirtualRuntime(cluster=cluster_of(num_workers=NUM_WORKERS, device={"base_s": 0.1}, **about))
    spec = make_run_spec(job, BSP(), recorder, tmp_path, columns=recorder.rows)
    outcome = runtime.run(spec, Schedule(build_plan("test", 0, 1000.0, windows)))
    recorder.close()
    assert outcome.t == pytest.approx(0.5 if windows else 0.2, abs=0.01)
