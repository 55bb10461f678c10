"""What makes no sense with a virtual clock or without gradients is refused, with the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.errors import ConfigError
from runtime.run.preflight import preflight
from runtime.virtual.costs import DIRECTORY
from tests.contract.catalogue import on_replicas
from tests.support.long_tests import long_after

VIRTUAL = "runtime=virtual"
NONE = f"{VIRTUAL} backend=none"
UNSCORED = f"{NONE} workload.target=null"
HOSTS = "runtime=virtual cluster=hosts"
REAL = "cluster.device=null cluster.costs=@real.yaml"
PROGRESS = """schema: 1
workload: digits
metric: accuracy
lr: 0.03
phi_samples: 12
points: [[0, 0.1], [100, 0.9]]
"""

FILES = {
    "good.yaml": "schema: 1\nvalues: {control_s: 0.001}\n",
    "real.yaml": "schema: 1\nvalues: {compute_base_s: 0.001}\n",
    "progress.yaml": PROGRESS,
    "loss.yaml": PROGRESS.replace("accuracy", "loss"),
}
"""Lines name them by ``@``. What files may say: test_virtual_costs.py."""

MODELS = sorted(path.stem for path in DIRECTORY.glob("*.yaml"))
FAST_HOST = (
    "cluster.costs=local_tcp cluster.hosts.overrides={0:{device:{base_s:1.0}}} "
    "cluster.hosts.placement=[[worker:0,worker:1,worker:2,worker:3],[server:0,server:1]]"
)
"""Only the host of the workers has a device."""

BAD_LINES = [
    (f"{VIRTUAL} cluster.costs=ideal cluster.device={{base_s:0,per_sample_s:0}}", "an iteration must take some time"),
    # cost models
    (
        f"{VIRTUAL} cluster.costs=idael",
        f"cluster.costs=idael: cannot be read (no such file or directory); there are {', '.join(MODELS)}",
    ),
    # the cluster
    (
        f"{VIRTUAL} cluster.costs=ideal cluster.device=null",
        "cluster.device=null: the cost model ideal does not say how long computing takes; give a device profile",
    ),
    (f"{VIRTUAL} runtime.port=0", "runtime.port=0: no such setting of runtime=virtual"),
    ("cluster=antdt", "runtime=live: the cluster is only modelled (20 machines with 16 cores each"),
    (f"{VIRTUAL} runtime.decisions=guessed", "runtime.decisions=guessed: must be one of fixed, measured"),
    (f"{VIRTUAL} runtime.lease_s=0", "runtime.lease_s=0: must be more than 0"),
    # hosts; what they may be is in test_hosts_described.py
    (
        f"{HOSTS} cluster.hosts.device={{base_s:0.0}}",
        "cluster.hosts.device: an iteration must take some time, or the clock would not advance; set base_s",
    ),
    (
        f"{HOSTS} {FAST_HOST} straggler=elastic straggler.leaves_per_hour=720",  # where a newcomer could go
        "cluster.device=null: the cost model local_tcp does not say how long computing takes",
    ),
    # what would show no effect
    (
        f"{HOSTS} {REAL} cluster.hosts.device={{base_s:1.0}} straggler=cpu_throttle",
        "cluster.device: paces the iterations of worker:0",
    ),
    (
        "straggler=gpu_hog backend.device=fake cluster.device=null",
        "kind gpu of worker:0 would slow down worker:1, too, which computes on the same device; name device:0",
    ),
    (
        "straggler=gpu_hog backend.device=fake straggler.targets=[device:0]",
        "cluster.device: paces the iterations of device:0 by sleeping, which would hide what is taken of a GPU",
    ),
    (f"{VIRTUAL} straggler=gpu_hog straggler.targets=[device:0]", "no device is shared out here; set backend.device"),
    # no gradients
    (f"{NONE} backend.progress=digits_ml", "backend.progress=digits_ml: cannot be read (no such file or directory)"),
    (f"{NONE} backend.progress=@good.yaml", "is not a progress model; scripts/fitting/fit_progress.py writes them"),
    (f"{NONE} backend.progress=@loss.yaml", "is a model of the metric loss, not of accuracy"),
    (f"{NONE} workload=ledger backend.progress=digits_mlp", "is a model of workload=digits, not of ledger"),
    # sweeps: the job is named
    (
        f"-m {VIRTUAL} backend=torch,none",
        "backend.progress=NAME, or set workload.target=null (in the job backend=none)",
    ),
]
"""Combinations that are rules: tests/unit/run/refused_lines.py."""

GOOD_LINES = [
    VIRTUAL,
    f"{VIRTUAL} cluster.costs=@good.yaml",
    f"{VIRTUAL} workload=ledger backend=numpy save_parameters=true",
    f"{NONE} backend.progress=digits_mlp",
    f"{NONE} backend.progress=@progress.yaml workload.target=0.8 stop_at_target=true",
    f"{UNSCORED} cluster.num_workers=1000 workload.global_batch_samples=1000 strategy=asp_even "
    "backend.num_parameters=1000",
    f"{VIRTUAL} {REAL} straggler=cpu_throttle topology.transport=shm",
    HOSTS,
    f"{HOSTS} {FAST_HOST} straggler=none",
    f"{HOSTS} cluster.hosts.link_mbps=null cluster.hosts.cpu_cores=null cluster.hosts.count=1",
    f"-m {HOSTS} {REAL} straggler=cpu_throttle,link_throttle,disrupted_host,pause,kill",
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def words(line: str, files: Path) -> list[str]:
    return line.replace("@", f"{files}/").split(" ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(*case, id=case[0], marks=[pytest.mark.long] if number % 8 else [])
        for number, case in enumerate(BAD_LINES)
    ],
)
def test_refused(line: str, message: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        preflight(words(line, files))
    assert message in " ".join(str(caught.value).split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        *long_after(GOOD_LINES, always=len(GOOD_LINES) // 4),
        pytest.param(
            f"-m {VIRTUAL} cluster.costs=ideal,local_tcp strategy=glob(*,exclude=[{','.join(on_replicas())}])",
            marks=pytest.mark.long,
        ),
    ],
)
def test_accepted(line: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    preflight(words(line, files))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", ["backend.progress=@progress.yaml", "cluster.costs=@good.yaml"])
def test_a_refusal_names_the_file_as_it_was_given(line: str, files: Path) -> None:
    """The path, not what became of it: the user looks for what was typed."""
    missing = line.replace(".yaml", ".yml")
    with pytest.raises(ConfigError) as caught:
        preflight(words(f"{UNSCORED} {missing}", files))
    assert str(caught.value).startswith(missing.replace("@", f"{files}/") + ": cannot be read")
