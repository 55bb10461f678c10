"""The virtual runtime: rows, worker-iterations on shared hosts, memory, and its overhead on real gradients.

Everything runs in one process on one core, so the machine's slow regime (core to core) does not matter and no round is
gated; cases are measured in turns. Worker-iterations a second without hosts are in ``test_bench_flat.py``.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from runtime.backends.torch import TorchModel
from runtime.cluster.device import DeviceProfile
from runtime.cluster.hosts import parse_hosts
from runtime.core.executor import cut_for
from runtime.record.columns import ColumnRecorder
from runtime.record.recorder import Recorder
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs, load_costs
from runtime.virtual.tasks.model_state import NoModelState, RealModelState
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.protocol import Strategy
from tests.support.harness import make_job, make_run_spec
from tests.support.labs import run_alone
from tests.support.runs import ROOT

from .goals import at_least, at_most
from .report import Report
from .tasks import BenchTask

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

STRATEGIES = {"bsp": BSP(), "asp": ASP(data="dynamic"), "ssp": SSP(bound=3)}
HOST_RATE = 20_000
"""Worker-iterations per second on shared hosts; SimGrid makes 12,000 to 19,000 where nobody decides anything."""
ROW_BYTES = 52
COSTS = Costs(jitter_sigma=0.05, jitter_rho=0.3, control_s=3e-4, latency_s=3e-4, update_base_s=1e-4)
PROFILE = DeviceProfile(base_s=0.02, per_sample_s=0.00125)
HOST = {"cpu_cores": 4.0, "real_cores_per_core": 0.1, "link_mbps": 1000, "latency_ms": 0.0}
ROUNDS = 3


def play(name: str, workers: int, rounds: int, run_dir: Path, *, full: bool = False) -> float:
    """Seconds for a job of ``backend=none`` with its record."""
    run_dir.mkdir(parents=True)
    strategy: Strategy = STRATEGIES[name]
    recorder: Any = Recorder(run_dir) if full else ColumnRecorder(run_dir)
    job = make_job(
        num_workers=workers,
        num_samples=workers * rounds,
        global_batch_samples=workers,
        epochs=1,
        max_time_s=1e6,
    )
    spec = make_run_spec(job, strategy, recorder, run_dir)
    begun = time.perf_counter()
    run_alone(VirtualSession(spec, calm(), NoModelState(1000, None), COSTS, PROFILE))
    recorder.close()
    return time.perf_counter() - begun


def calm() -> Any:
    from injectors.plan import build_plan
    from injectors.schedule import Schedule

    return Schedule(build_plan("none", 0, 1e6, ()))


def test_bytes_of_a_row(tmp_path: Path, report: Report) -> None:
    verdicts = []
    for name in STRATEGIES:
        play(name, 8, 20_000, tmp_path / name)
        size = (tmp_path / name / "iterations.parquet").stat().st_size / (8 * 20_000)
        verdicts.append(at_most(f"{name}, 8 workers: a row on disk", size, ROW_BYTES, "bytes"))
    report.judge("rows", verdicts)


def test_a_thousand_workers(tmp_path: Path, report: Report) -> None:
    took = {name: play(name, 1000, 1000, tmp_path / name) for name in STRATEGIES}
    goal = at_most("bsp, 1,000 workers x 1,000 rounds", took["bsp"], 20.0, "s")
    report.judge("a thousand workers", [goal], extra=", ".join(f"{name} {s:.1f} s" for name, s in took.items()))


def play_hosts(name: str, workers: int, hosts: int, rounds: int, run_dir: Path) -> float:
    """Processor seconds of a worker-iteration on hosts that share links and processors, four servers."""
    run_dir.mkdir(parents=True)
    recorder = ColumnRecorder(run_dir)
    job = make_job(
        num_workers=workers,
        num_servers=4,
        num_samples=workers * 32 * rounds,
        global_batch_samples=workers * 32,
        epochs=1,
        max_time_s=1e6,
    )
    spec = make_run_spec(job, STRATEGIES[name], recorder, run_dir)
    placed = parse_hosts({**HOST, "count": hosts}, workers, 4)
    costs = load_costs("hosts_tcp").values
    session = VirtualSession(spec, calm(), NoModelState(75_000, None), costs, None, hosts=placed)
    begun = time.process_time()
    run_alone(session)
    recorder.close()
    return (time.process_time() - begun) / (workers * rounds)


def test_hosts(tmp_path: Path, report: Report) -> None:
    """The kernel of shared machines by the number of hosts, in turns."""
    cases = {"asp 8x4": ("asp", 8, 8, 100), "bsp 8x4": ("bsp", 8, 8, 100), "asp 32x4": ("asp", 32, 32, 12)}
    cases |= {"asp 8x4, 100 hosts": ("asp", 8, 100, 100), "asp 8x4, 12 hosts": ("asp", 8, 12, 100)}
    took: dict[str, list[float]] = {}
    play_hosts("asp", 8, 8, 2, tmp_path / "warm-up")
    for turn in range(ROUNDS):
        for case, about in cases.items():
            took.setdefault(case, []).append(play_hosts(*about, tmp_path / f"{case} {turn}"))
    pairs = zip(took["asp 8x4, 100 hosts"], took["asp 8x4, 12 hosts"], strict=True)
    more = median(a / b for a, b in pairs)
    verdict = at_most("asp, 8 workers: 100 hosts / 12 hosts, none shared by two tasks", more, 1.1, "x")
    rates = ", ".join(f"{case} {1 / median(seconds):,.0f}/s" for case, seconds in took.items())
    report.judge("worker-iterations on shared hosts", [verdict], extra=rates)


def test_host_rates(tmp_path: Path, report: Report) -> None:
    """8 workers and 4 servers on 8 hosts, with coordinator and rows."""
    took: dict[str, list[float]] = {}
    play_hosts("asp", 8, 8, 2, tmp_path / "warm-up")
    for turn in range(ROUNDS):
        for name in ("asp", "bsp"):
            took.setdefault(name, []).append(play_hosts(name, 8, 8, 1000, tmp_path / f"{name} {turn}"))
    verdicts = [
        at_least(f"{name}, 8 workers, 4 servers, 8 hosts", 1 / median(seconds), HOST_RATE, "/s")
        for name, seconds in took.items()
    ]
    report.judge("rate of worker-iterations on shared hosts", verdicts)


MEMORY = """
import resource, sys
from pathlib import Path
from tests.bench.test_bench_virtual import play
play(sys.argv[1], 100, int(sys.argv[2]), Path(sys.argv[3]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_job(tmp_path: Path, report: Report) -> None:
    peak = {}
    for name in ("bsp", "asp"):
        for rounds in (2_000, 20_000):
            words = [sys.executable, "-c", MEMORY, name, str(rounds), str(tmp_path / f"{name}{rounds}")]
            done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
            peak[name, rounds] = int(done.stdout) / 1024
    verdicts = [
        at_most(f"{name}: peak memory of 10 times the iterations", peak[name, 20_000] / peak[name, 2_000], 1.25, "x")
        for name in ("bsp", "asp")
    ]
    report.judge("memory", verdicts, extra=", ".join(f"{n} x {r}: {mb:.0f} MB" for (n, r), mb in peak.items()))


class Timed:
    """A model whose gradients are timed."""

    def __init__(self, model: Any) -> None:
        self.model, self.spent_s = model, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def gradient(self, batch: Any, micro: Any) -> float:
        begun = time.perf_counter()
        loss: float = self.model.gradient(batch, micro)
        self.spent_s += time.perf_counter() - begun
        return loss


def train(name: str, rounds: int, run_dir: Path) -> tuple[float, float]:
    """Seconds of a job with real gradients in all, and within the gradients."""
    run_dir.mkdir()
    model = Timed(TorchModel(BenchTask(model=name, num_workers=4), 0, 1))
    job = make_job(num_samples=1280, global_batch_samples=128, epochs=rounds // 10, max_time_s=1e6, lr=0.01)
    spec = make_run_spec(job, BSP(), Recorder(run_dir), run_dir)
    model_state = RealModelState(model, {"name": "sgd", "lr": 0.01, "momentum": 0.9}, cut_for(job, "dynamic"), 0)
    session = VirtualSession(spec, calm(), model_state, COSTS, PROFILE)
    begun = time.perf_counter()
    run_alone(session)
    return time.perf_counter() - begun, model.spent_s


@pytest.mark.parametrize("name", ["mlp", "resnet20"])
def test_real_gradients(name: str, tmp_path: Path, report: Report) -> None:
    """Everything but ``Model.gradient`` is overhead: batches, checks, updates, decisions, the record."""
    train(name, 10, tmp_path / "warm-up")
    rounds = {"mlp": 400, "resnet20": 60}[name]
    total_s, gradients_s = train(name, rounds, tmp_path / "run")
    goal = at_most(f"{name}: overhead over the bare gradients", total_s / gradients_s - 1, 0.15, "%", 100)
    each = f"a gradient takes {gradients_s / (4 * rounds) * 1e3:.2f} ms"
    report.judge(f"real gradients on the virtual clock, {name}", [goal], extra=each)
