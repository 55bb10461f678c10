"""Bad command lines: exit code 2 and one line that helps, before any process starts."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from pathlib import Path

import pytest
import yaml

from injectors.patterns import NoStragglers
from injectors.plan import ClusterShape, Disturbance, Plan, build_plan
from runtime.config.command_line import parse_arguments
from runtime.config.compose import Composer, composing
from runtime.config.parse import parse
from runtime.errors import ConfigError
from runtime.live import LiveRuntime
from runtime.record.meta import describe_versions
from runtime.run.checks.job import check_job
from runtime.run.preflight import preflight
from runtime.version import own_version
from tests.contract.catalogue import on_replicas
from tests.support.cli import ROOT, refusal, run_cli
from tests.support.long_tests import long_after, rows_long_after
from tests.unit.run.bad_lines import BAD_LINES, REPLICATED

CONF = ROOT / "conf"

GOOD_LINES = [
    "",
    "workload.optimizer.name=adam ~workload.optimizer.momentum",
    "strategy=ssp strategy.bound=3",
    "strategy=backup_workers strategy.num_backup=3",
    "strategy=antdt_dd strategy.types=[a,a,b,b] strategy.devices={a:{samples_per_s:3},b:{samples_per_s:1}}",
    "workload=ledger backend=numpy cluster.device=null straggler=none",
    "workload=ledger backend=numpy workload.target=2.0",
    "cluster.num_workers=1 topology.num_servers=1 topology.transport=shm",
    f"{REPLICATED} +workload.lr_schedule.gamma=null +workload.optimizer.weight_decay=null",
    "runtime=virtual cluster=dlrover backend=none backend.num_parameters=1 workload.target=null strategy=dlrover "
    "topology.num_servers=1 topology.server_shares=[2,1]",  # for when there are two
    f"-m strategy=glob(*,exclude=[{','.join(on_replicas())}]) seed=range(1)",  # every one with servers
    "-m strategy=asp,ssp strategy.lr_rule=unit",  # Hydra alone would refuse this: its default, bsp, has no lr_rule
    "strategy=ssp -m strategy.bound=0,1",  # and this: a flag between settings
    "hydra.run.dir=/tmp/stragglab/somewhere/new",
]


CLAIMED = "cannot be written"
"""In the message about a directory, which the program claims after all checks."""


def words(line: str) -> list[str]:
    """As a shell splits it, but quotes are left where they hold no word with a blank."""
    return [word[1:-1] if " " in word else word for word in re.findall(r"'[^' ]+ [^']+'|[^ ]+", line)]


def lines_and_messages(cases: Iterable[tuple[str, str]], every: int = 1) -> pytest.MarkDecorator:
    """As parameters, with lines that can be read in the ids; ``every`` so many is for every commit, others in turns."""
    found = [
        pytest.param(*case, id=case[0][:60], marks=[pytest.mark.long] if number % every else [])
        for number, case in enumerate(cases)
    ]
    return pytest.mark.parametrize(("line", "message"), found)


@lines_and_messages([case for case in BAD_LINES if CLAIMED not in case[1]], every=24)
def test_refused(line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        preflight(words(line))
    assert message in " ".join(str(caught.value).split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.few(4)
@lines_and_messages([case for number, case in enumerate(BAD_LINES) if number % 54 == 0 or CLAIMED in case[1]])
def test_a_refusal_is_one_line_and_an_exit_code(line: str, message: str, tmp_path: Path) -> None:
    """Some of the lines, and those of directories, which are claimed after the checks, through the whole program."""
    assert message in refusal(*words(line), cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", long_after(GOOD_LINES, always=4))
def test_accepted(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    preflight(words(line))
    assert list(tmp_path.iterdir()) == []


def composed(line: str) -> Iterator[tuple[str, dict[str, object]]]:
    with composing(parse_arguments(words(line))) as composer:
        for job in composer.jobs(composer.master()):
            yield job.label, job.raw


GROUPS = ("strategy", "runtime", "cluster", "workload", "backend", "topology", "straggler")
NEEDS = {
    "workload=ledger": "backend=numpy",
    "workload=lda": "backend=numpy",
    "workload=lda_wikipedia": "backend=numpy",
    "backend=numpy": "workload=ledger",
    "backend=none": "runtime=virtual workload.target=null",
    **{
        f"workload={name}": "runtime=virtual backend=none" for name in ("criteo_scale", "imagenet_scale", "cifar_scale")
    },
    "cluster=antdt": "runtime=virtual workload=criteo_scale backend=none",
    "cluster=dlrover": "runtime=virtual workload=criteo_scale backend=none",
    "cluster=star_servers": "runtime=virtual",
    "cluster=hybrid": "runtime=virtual topology=allreduce",
    **{f"strategy={name}": "topology=allreduce" for name in on_replicas()},
    "straggler=gpu_hog": "backend.device=fake straggler.targets=[device:0] cluster.device=null",
    **{f"straggler={name}": "cluster=hosts" for name in ("link_throttle", "link_transient", "disrupted_host")},
    **{
        f"straggler={name}": "cluster.device=null"
        for name in ("cpu_throttle", "cpu_transient", "markov", "on_off", "quarter")
    },
}
EVEN = "strategy=asp_even"
"""Cuts an epoch into parts of the workers of its start: not with ``straggler=elastic``, which some other one meets."""


def choices() -> list[str]:
    """Every file once; a strategy, a straggler and a workload at a time, which know nothing of each other.

    Those with needs come last, where they meet nobody else with needs.
    """
    found = {group: [f"{group}={path.stem}" for path in sorted((CONF / group).glob("*.yaml"))] for group in GROUPS}
    files = {group: sorted(lines, key=lambda line: (line in NEEDS, line == EVEN)) for group, lines in found.items()}
    together = zip_longest(*(files.pop(group) for group in ("straggler", "workload", "strategy")), fillvalue="")
    lines = [[choice for choice in choices if choice] for choices in together]
    lines += [[choice] for choice in chain(*files.values())]
    return [" ".join([*line, *filter(None, map(NEEDS.get, line))]) for line in lines]


@pytest.fixture(scope="module")
def composer() -> Composer:
    """One that remembers the files it has read, which is a quarter of the time of composing."""
    with composing(parse_arguments([])) as made:
        return made


@pytest.mark.few(8)
@pytest.mark.parametrize("line", long_after(choices(), always=20))
def test_every_file_in_conf_composes_and_builds(line: str, composer: Composer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveRuntime, "look", staticmethod(lambda name: None))  # whatever this machine lacks
    monkeypatch.setattr("runtime.run.checks.job.find_spec", lambda name: name)
    check_job(parse(composer.raw(words(line))))


def of_parts(gate: str, load: str) -> str:
    """A strategy of one's own."""
    parts = {"gate": f"strategies.parts.gates.{gate}", "load": f"strategies.lb_bsp.{load}"}
    return "_target_: strategies.parts.composed.Composed\n" + "".join(
        f"{slot}:\n  _target_: {name}\n" for slot, name in parts.items()
    )


def test_a_strategy_of_parts_needs_no_code(tmp_path: Path) -> None:
    """Parts that fit run; parts that do not are refused in one line that names the slot and the cure."""
    (tmp_path / "strategy").mkdir()
    mine = tmp_path / "strategy" / "mine.yaml"
    mine.write_text(of_parts("AllGate", "by_steps.StepsLoad"))
    preflight(["--config-dir", str(tmp_path), "strategy=mine", "runtime=virtual"])
    mine.write_text(of_parts("EachGate", "by_steps.StepsLoad"))
    said = "strategy.load=StepsLoad: compares the workers of a round, and EachGate has none; take the gate AllGate"
    with pytest.raises(ConfigError, match=re.escape(said)):
        preflight(["--config-dir", str(tmp_path), "strategy=mine", "runtime=virtual"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    assert "cannot be written" in run_cli("runtime=virtual", f"hydra.run.dir={tmp_path}/x", cwd=tmp_path).err


def test_a_port_in_use() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        with pytest.raises(ConfigError, match=f"^runtime.port={port}: address already in use; choose another, or 0"):
            preflight([f"runtime.port={port}"])
    preflight([f"runtime.port={port}"])


@pytest.mark.parametrize(
    ("group", "text", "said"),
    [
        (
            "strategy",
            "_target_: subprocess.Popen\nargs: touch pwned\n",
            "strategy._target_=subprocess.Popen: not below",
        ),
        (
            "hydra/callbacks",
            "x:\n  _target_: os.system\n  command: touch pwned\n",
            "hydra.callbacks.x._target_=os.system: not below",
        ),
    ],
)
def test_a_target_in_a_file_of_the_user(group: str, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / group).mkdir(parents=True)
    (tmp_path / group / "mine.yaml").write_text(text)
    assert said in refusal("--config-dir", str(tmp_path), f"{group}=mine", cwd=tmp_path)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--help"], "python run.py -m strategy=bsp,asp,ssp seed=0,1,2"),
        (["--cfg", "job", "strategy=ssp"], "bound: 3"),
        (["--info", "defaults"], "strategy/bsp"),
        (["--version"], "Stragglab 0.1.0 (Hydra 1."),
    ],
)
def test_hydra_s_own_flags_are_hydra_s(flags: list[str], expected: str, tmp_path: Path) -> None:
    finished = run_cli(*flags, cwd=tmp_path)
    assert finished.exit_code == 0
    assert expected in finished.out


def catches(process: subprocess.Popen[str], number: signal.Signals) -> bool:
    """Whether the process has installed a handler for the signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    mask = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(mask >> (number - 1) & 1)


@pytest.mark.parametrize(
    "delay_s", [0.1, *(pytest.param(delay_s, marks=pytest.mark.long) for delay_s in (0.0, 0.05, 0.3, 1.0))]
)
def test_ctrl_c_before_the_first_job_says_that_nothing_was_started(delay_s: float, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "run.py"), "-m", "seed=range(900,-2,-1)"],  # long to check, refused at its end
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not catches(process, signal.SIGTERM):  # the first thing that run.py does
        time.sleep(0.001)
    time.sleep(delay_s)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "run.py: interrupted; nothing was started"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("_target_: strategies.basic.bsp.BSP\na: " + "[" * 3000, "mine.yaml: line 2: is nested more than"),
        ("a: &a [1, 2]\n" + "".join(f"b{n}: &a [*a, *a, *a, *a]\n" for n in range(20)), "mine.yaml: line 2"),
        ("0x7ff", "mine.yaml: Invalid loaded object type: int"),
        ("a: " + "9" * 5000, "mine.yaml: Exceeds the limit"),
    ],
)
def test_a_file_of_a_folder_is_read_within_limits(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "strategy").mkdir()
    (tmp_path / "strategy" / "mine.yaml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)):
        preflight(["--config-dir", str(tmp_path), "strategy=mine"])


def planned(pattern: NoStragglers, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
    windows = [
        Disturbance(start_s=start_s, end_s=9.0, target=target, kind="delay", magnitude=1.0)
        for start_s, target in ((1.0, "worker:0"), (2.5, "worker:9"))
    ]
    return build_plan(pattern.name, seed, horizon_s, windows)


def test_a_window_that_cannot_be_is_named_by_its_setting_and_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoStragglers, "plan", planned)
    with pytest.raises(ConfigError) as caught:
        preflight(["runtime=virtual", "straggler=none"])
    assert str(caught.value).startswith(
        "straggler=none: plans what cannot be (delay of worker:9 from 2.5 s, disturbance 1 of pattern none): there is "
    )


def test_what_only_the_program_itself_shows(tmp_path: Path) -> None:
    """Hydra gets flags first; the version is the same everywhere; a worker can build things without Hydra."""
    assert preflight(["strategy=ssp", "-m", "seed=0,1"]).argv == ["-m", "strategy=ssp", "seed=0,1"]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert f"\n## [{version}] - {citation['date-released']}\n" in (ROOT / "CHANGELOG.md").read_text()
    assert citation["version"] == describe_versions()["stragglab"] == own_version() == version
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\nversion = "9"\n')
    assert own_version(tmp_path / "pyproject.toml") != "9"
    listing = "print([name for name in ('hydra', 'omegaconf') if name in sys.modules])"
    words = [sys.executable, "-c", f"import sys, runtime.config.instantiate; {listing}"]
    assert subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip() == "[]"


VIRTUAL = ("runtime=virtual", "straggler=none")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.few(1)
@pytest.mark.parametrize("by", ["--config-dir", "hydra.searchpath"])
@pytest.mark.parametrize("chosen", ["ssp", "bsp"])
def test_a_file_of_the_user_with_a_built_in_s_name(by: str, chosen: str, tmp_path: Path) -> None:
    """Hydra reads conf/strategy/ssp.yaml instead: a bound of 99 became 3, and nobody said so."""
    mine = write(tmp_path / "strategy" / "ssp.yaml", "_target_: strategies.basic.ssp.SSP\nbound: 99\n")
    words = [by, str(tmp_path)] if by.startswith("--") else [f"{by}=[file://{tmp_path}]"]
    with pytest.raises(ConfigError) as refused:
        preflight([*words, f"strategy={chosen}"])
    shipped = ROOT / "conf" / "strategy" / "ssp.yaml"
    assert str(refused.value) == (
        f"{mine}: would never be read, since Hydra takes {shipped} for that name; give yours another name"
    )


def test_a_file_of_the_user_with_the_name_of_hydra_s(tmp_path: Path) -> None:
    mine = write(tmp_path / "hydra" / "job_logging" / "none.yaml", "version: 1\n")
    with pytest.raises(ConfigError, match=r"job_logging/none.yaml: would never be read"):
        preflight(["--config-dir", str(tmp_path)])
    mine.unlink()
    write(tmp_path / "hydra" / "launcher" / "basic.yaml", "_target_: hydra_plugins.mine.Launcher\n")
    with pytest.raises(ConfigError, match=r"^'hydra/launcher/basic' is validated against ConfigStore schema"):
        preflight(["--config-dir", str(tmp_path)])  # of this Hydra makes a warning with an empty first line


def test_files_of_the_user_with_names_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "strategy" / "mine.yaml", "_target_: strategies.basic.ssp.SSP\nbound: 99\n")
    write(tmp_path / "notes" / "ssp.yaml", "- anything\n")
    preflight(["--config-dir", str(tmp_path), "strategy=mine"])
    preflight(["--config-dir", str(ROOT / "conf")])  # the same files, not others
    write(tmp_path / "strategy" / "mine.yaml", "defaults:\n  - ssp\n  - override /nope: x\nbound: 3\n")
    with pytest.raises(ConfigError):
        preflight(["--config-dir", str(tmp_path), "strategy=mine"])


@pytest.fixture
def launcher(tmp_path: Path) -> list[str]:
    """Words that choose another launcher, as joblib's; it is not built before the jobs are checked."""
    write(tmp_path / "hydra" / "launcher" / "crowd.yaml", "_target_: hydra_plugins.crowd.CrowdLauncher\n")
    return ["--config-dir", str(tmp_path), "hydra/launcher=crowd"]


def test_another_launcher_is_refused_for_live_jobs(launcher: list[str]) -> None:
    preflight([*launcher, "-m", *VIRTUAL, "seed=0,1"])
    with pytest.raises(ConfigError, match=r"^hydra/launcher=crowd: .* runtime=live .*, or choose runtime=virtual"):
        preflight([*launcher, "-m", "seed=0,1"])
    with pytest.raises(ConfigError, match=r"^hydra/launcher=crowd: .* runtime=live "):
        preflight([*launcher, "-m", "runtime=virtual,live", "straggler=none"])


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("line", "message"),
    rows_long_after(
        [
            ("strategy@foo=bsp", "strategy@foo=bsp: no such setting; did you mean strategy?"),
            ("strategy@names.x=bsp seed=3", "strategy@names.x=bsp: no such setting; "),
            ("-m strategy@foo=bsp,ssp", "strategy@foo=bsp: no such setting"),
        ],
        always=2,
    ),
)
def test_a_group_at_another_place(line: str, message: str) -> None:
    """It was asked for again and again which settings there are, with the one that is not there among them."""
    with pytest.raises(ConfigError) as refused:
        preflight(line.split())
    assert message in str(refused.value)
