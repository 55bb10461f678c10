"""What makes no sense with a virtual clock or without gradients is refused: exit code 2 and one line with the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.errors import ConfigError
from runtime.run.preflight import preflight
from runtime.virtual.costs import DIRECTORY
from tests.support.cli import run_cli
from tests.support.long_tests import long_after, rows_long_after

REFUSED = 2
VIRTUAL = "runtime=virtual"
NONE = f"{VIRTUAL} backend=none"
UNSCORED = f"{NONE} workload.target=null"
HOSTS = "runtime=virtual cluster=hosts"
REAL = "cluster.device=null cluster.costs=@real.yaml"
COSTS = "schema: 1\nvalues: {control_s: 0.001}\n"
PROGRESS = """schema: 1
workload: digits
metric: accuracy
lr: 0.03
phi_samples: 12
points: [[0, 0.1], [100, 0.9]]
"""

FILES = {
    "good.yaml": COSTS.encode(),
    "real.yaml": COSTS.replace("control_s", "compute_base_s").encode(),
    "foreign.yaml": b"schema: 1\nmetric: accuracy\n",
    "list.yaml": b"[1, 2]\n",
    "binary.yaml": b"\x89PNG\r\n\x1a\n\x00",
    "unknown.yaml": COSTS.replace("control", "contrl").encode(),
    "negative.yaml": COSTS.replace("0.001", "-1").encode(),
    "nan.yaml": COSTS.replace("0.001", ".nan").encode(),
    "newer.yaml": COSTS.replace("schema: 1", "schema: 2").encode(),
    "progress.yaml": PROGRESS.encode(),
    "loss.yaml": PROGRESS.replace("accuracy", "loss").encode(),
    "ledger.yaml": PROGRESS.replace("digits", "ledger").encode(),
}
"""Lines name them by ``@``."""

MODELS = sorted(path.stem for path in DIRECTORY.glob("*.yaml"))
FAST_HOST = (
    "cluster.costs=local_tcp cluster.hosts.overrides={0:{device:{base_s:1.0}}} "
    "cluster.hosts.placement=[[worker:0,worker:1,worker:2,worker:3],[server:0,server:1]]"
)
"""Only the host of the workers has a device."""

BAD_LINES = [
    ("costs=ideal", "costs=ideal: no such setting"),
    (
        "runtime=virtual cluster.costs=ideal cluster.device={base_s:0,per_sample_s:0}",
        "an iteration must take some time",
    ),
    (
        f"{UNSCORED} strategy=dlrover strategy.cores_as=request straggler=none cluster=dlrover",
        "strategy.cores_as=request: without hosts there are no cores of which a part could be guaranteed; use "
        "strategy.cores_as=limit, or choose cluster=hosts",
    ),
    (
        f"{HOSTS} backend=none workload.target=null strategy=optimus strategy.cores_as=request straggler=none "
        "cluster.hosts.cpu_cores=null",
        "strategy.cores_as=request: host 0 has no number of cores (cluster.hosts.cpu_cores=null)",
    ),
    # cost models
    (
        f"{VIRTUAL} cluster.costs=idael",
        f"cluster.costs=idael: cannot be read (no such file or directory); there are {', '.join(MODELS)}",
    ),
    (f"{VIRTUAL} cluster.costs=@missing.yaml", "missing.yaml: cannot be read (no such file or directory)"),
    (f"{VIRTUAL} cluster.costs=@", "cannot be read (it is a directory, and not a file)"),
    (f"{VIRTUAL} cluster.costs=@foreign.yaml", "is not a cost model; python run.py calibrate writes them"),
    (f"{VIRTUAL} cluster.costs=@progress.yaml", "is not a cost model; python run.py calibrate writes them"),
    (f"{VIRTUAL} cluster.costs=@list.yaml", "is not a cost model; python run.py calibrate writes them"),
    (
        f"{VIRTUAL} cluster.costs=@binary.yaml",
        "is not a YAML file (invalid leading UTF-8 octet); python run.py calibrate writes",
    ),
    (f"{VIRTUAL} cluster.costs=@unknown.yaml", "values.contrl_s: no such setting; did you mean values.control_s?"),
    (f"{VIRTUAL} cluster.costs=@negative.yaml", "values.control_s=-1: must be at least 0"),
    (f"{VIRTUAL} cluster.costs=@nan.yaml", "values.control_s=nan: must be a finite number"),
    (f"{VIRTUAL} cluster.costs=@newer.yaml", "schema=2: must be one of 1"),
    (f"{VIRTUAL} cluster.costs=null", "cluster.costs=null: must be text"),
    # the cluster
    (
        f"{VIRTUAL} cluster.costs=ideal cluster.device=null",
        "cluster.device=null: the cost model ideal does not say how long computing takes; give a device profile",
    ),
    (f"{VIRTUAL} cluster.device={{speed:1}}", "no such setting of cluster=local; did you mean"),
    (f"{VIRTUAL} cluster.device.base_s=-1", "base_s=-1.0 must be 0 or more"),
    (f"{VIRTUAL} cluster.num_workers=0", "cluster.num_workers=0: must be at least 1"),
    (f"{VIRTUAL} cluster.num_workers=129", "workload.global_batch_samples=128: smaller than cluster.num_workers=129"),
    (
        f"{VIRTUAL} cluster.cost=ideal",
        "cluster.cost=ideal: no such setting of cluster=local; did you mean cluster.costs?",
    ),
    (f"{VIRTUAL} +cluster.cost=ideal", "cluster.cost: no such setting; did you mean cluster.costs?"),
    (f"{VIRTUAL} runtime.port=0", "runtime.port=0: no such setting of runtime=virtual"),
    ("runtime.costs=ideal", "runtime.costs=ideal: no such setting of runtime=live"),
    ("cluster=antdt", "runtime=live: the cluster is only modelled (20 machines with 16 cores each"),
    (f"{VIRTUAL} runtime.decisions=guessed", "runtime.decisions=guessed: must be one of fixed, measured"),
    # hosts
    (f"{VIRTUAL} runtime.lease_s=0", "runtime.lease_s=0: must be more than 0"),
    (f"{HOSTS} cluster.hosts.count=0", "cluster.hosts.count=0: must be at least 1"),
    (f"{HOSTS} cluster.hosts.cpu_cores=0.01", "cluster.hosts.real_cores_per_core=0.1: makes 0.001 cores"),
    (f"{HOSTS} +cluster.hosts.cpu=4", "cluster.hosts.cpu: no such setting"),
    (f"{HOSTS} cluster.hosts.placement=[[worker:7]]", "cluster.hosts.placement: there is no task worker:7"),
    (
        f"{HOSTS} topology.transport=shm",
        "topology.transport=shm: hosts share no memory; use topology.transport=tcp",
    ),
    (
        f"{HOSTS} cluster.costs=local_tcp",
        "cluster.device=null: the cost model local_tcp does not say how long computing takes",
    ),
    (
        f"{HOSTS} cluster.hosts.device={{base_s:0.0}}",
        "cluster.hosts.device: an iteration must take some time, or the clock would not advance; set base_s",
    ),
    (
        f"{HOSTS} {FAST_HOST} straggler=elastic straggler.leaves_per_hour=720",  # where a newcomer could go
        "cluster.device=null: the cost model local_tcp does not say how long computing takes",
    ),
    (
        f"{HOSTS} {FAST_HOST} straggler=elastic straggler.leaves_per_hour=720",
        "cluster.device=null: the cost model local_tcp does not say how long computing takes",
    ),
    # what would show no effect
    (
        f"{VIRTUAL} straggler=cpu_throttle",
        "cluster.device: paces the iterations of worker:0 by sleeping, which would hide a throttled processor; set "
        "cluster.device=null",
    ),
    (
        f"{HOSTS} {REAL} cluster.hosts.device={{base_s:1.0}} straggler=cpu_throttle",
        "cluster.device: paces the iterations of worker:0",
    ),
    (
        "runtime=virtual cluster=star straggler=cpu_throttle cluster.device.base_s=0.6",
        "cluster.device: paces the iterations of worker:0",
    ),
    (
        f"{HOSTS} straggler=link_throttle cluster.hosts.link_mbps=null",
        "cluster.hosts.link_mbps=null: link:0 has no rate to throttle",
    ),
    (
        f"{HOSTS} {REAL} straggler=cpu_throttle straggler.targets=[host:1] cluster.hosts.cpu_cores=null",
        "cluster.hosts.cpu_cores=null: host:1 has no quota to throttle",
    ),
    (f"{VIRTUAL} straggler=link_throttle", "this cluster has no hosts"),
    # parts of GPUs
    ("straggler=gpu_hog", "kind gpu takes a part of a GPU, and backend.device=cpu computes on none; set backend"),
    (
        "straggler=gpu_hog backend.device=fake cluster.device=null",
        "kind gpu of worker:0 would slow down worker:1, too, which computes on the same device; name device:0",
    ),
    (
        "straggler=gpu_hog backend.device=fake straggler.targets=[device:0]",
        "cluster.device: paces the iterations of device:0 by sleeping, which would hide what is taken of a GPU",
    ),
    (
        "straggler=gpu_hog backend.device=fake straggler.targets=[device:1]",
        "there is no such target; valid are worker:0 to worker:3, server:0 to server:1, device:0",
    ),
    (f"{VIRTUAL} straggler=gpu_hog straggler.targets=[device:0]", "no device is shared out here; set backend.device"),
    # no gradients
    ("backend=none", "backend=none: computes no gradients; runtime=live needs them, choose runtime=virtual"),
    (
        NONE,
        "workload.target=0.95: backend=none measures no accuracy; estimate it with backend.progress=NAME, or set "
        "workload.target=null",
    ),
    (f"{UNSCORED} save_parameters=true", "save_parameters=true: backend=none has no parameters"),
    (f"{UNSCORED} backend.num_parameters=0", "backend.num_parameters=0: must be at least 1, or null"),
    (f"{UNSCORED} backend.num_parameters=1e9", "backend.num_parameters=1000000000.0: must be a whole number"),
    (f"{UNSCORED} backend.progess=digits_mlp", "no such setting of backend=none; did you mean backend.progress?"),
    # progress models
    (f"{NONE} backend.progress=digits_ml", "backend.progress=digits_ml: cannot be read (no such file or directory)"),
    (f"{NONE} backend.progress=@good.yaml", "is not a progress model; scripts/fitting/fit_progress.py writes them"),
    (
        f"{NONE} backend.progress=@binary.yaml",
        "is not a YAML file (invalid leading UTF-8 octet); scripts/fitting/fit_progress.py",
    ),
    (f"{NONE} backend.progress=@loss.yaml", "is a model of the metric loss, not of accuracy"),
    (f"{NONE} backend.progress=@ledger.yaml", "is a model of workload=ledger, not of digits"),
    (f"{NONE} workload=ledger backend.progress=digits_mlp", "is a model of workload=digits, not of ledger"),
    # sweeps: the job is named
    (
        f"-m {VIRTUAL} backend=torch,none",
        "backend.progress=NAME, or set workload.target=null (in the job backend=none)",
    ),
]

GOOD_LINES = [
    VIRTUAL,
    f"{VIRTUAL} cluster.costs=ideal topology.transport=shm runtime.decisions=measured",
    f"{VIRTUAL} cluster.costs=@good.yaml",
    f"{VIRTUAL} workload=ledger backend=numpy save_parameters=true",
    UNSCORED,
    f"{NONE} workload=ledger",
    f"{NONE} backend.progress=digits_mlp",
    f"{NONE} backend.progress=@progress.yaml workload.target=0.8 stop_at_target=true",
    f"{UNSCORED} cluster.num_workers=1000 workload.global_batch_samples=1000 strategy=asp_even "
    "backend.num_parameters=1000",
    f"-m {VIRTUAL} cluster.costs=ideal,local_tcp strategy=glob(as*)",
    f"{VIRTUAL} {REAL} straggler=cpu_throttle topology.transport=shm",
    f"{VIRTUAL} straggler=cpu_throttle straggler.targets=[server:0]",
    f"-m {VIRTUAL} straggler=pause,kill",
    HOSTS,
    f"{HOSTS} {FAST_HOST} straggler=none",
    f"{HOSTS} cluster.num_workers=1 topology.num_servers=1 cluster.hosts.placement=[[worker:0,server:0]]",
    f"{HOSTS} cluster.hosts.overrides={{3:{{cpu_cores:2.0,link_mbps:100}}}}",
    f"{HOSTS} cluster.hosts.link_mbps=null cluster.hosts.cpu_cores=null cluster.hosts.count=1",
    f"-m {HOSTS} {REAL} straggler=cpu_throttle,link_throttle,disrupted_host,pause,kill",
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    return folder


def words(line: str, files: Path) -> list[str]:
    return line.replace("@", f"{files}/").split(" ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(*case, id=case[0], marks=[pytest.mark.long] if number % 16 else [])
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
    ("line", "message"), rows_long_after(BAD_LINES[::18], always=2), ids=[line for line, _ in BAD_LINES[::18]]
)
def test_a_refusal_is_one_line_and_an_exit_code(line: str, message: str, files: Path, tmp_path: Path) -> None:
    """Some of the lines through the whole program."""
    finished = run_cli(*words(line, files), cwd=tmp_path)
    assert message in finished.err
    assert finished.err.startswith("run.py: ")
    assert finished.err.count("\n") == 1
    assert (finished.exit_code, finished.out, list(tmp_path.iterdir())) == (REFUSED, "", [])


@pytest.mark.parametrize(
    "line",
    [
        *long_after(GOOD_LINES, always=len(GOOD_LINES) // 4),
        pytest.param(f"-m {VIRTUAL} cluster.costs=ideal,local_tcp strategy=glob(*)", marks=pytest.mark.long),
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
