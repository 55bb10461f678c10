"""Sets of jobs before they run: what is refused, and what every job becomes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runtime.api import Needs
from runtime.config.parse import Config
from runtime.containment import Isolation
from runtime.errors import ConfigError
from runtime.live.machines.mechanisms import Missing
from runtime.live.runtime import LiveRuntime
from runtime.run.checks.job import CheckedJob
from runtime.run.jobs import checks
from runtime.run.jobs.as_processes import shared_mechanisms
from runtime.run.jobs.models import Models
from runtime.run.jobs.shaping import seed_of
from runtime.run.preflight import preflight
from tests.support.job_sets import checked_set, row
from tests.support.long_tests import long_after

LIVE = ("runtime=live", "workload=ledger", "backend=numpy", "cluster=hosts", "cluster.hosts.gpus=2")
BAD: dict[str, tuple[list[dict[str, Any]], tuple[str, ...], str]] = {
    "gang": ([row("a"), row("b", gpus=41)], (), r"^jobs=given: job b: gpus=41: the cluster has 40 GPUs; "),
    "twice": ([row("a"), row("a")], (), r"^jobs=given: job a: there is another one of this name"),
    "no length": ([row("a", iterations=None)], ("workload.epochs=null",), r"^jobs=given: job a: gives neither"),
    "no server": ([row("a", servers=0)], (), r"^jobs=given: job a: topology.num_servers=0: "),
    "bound of the strategy": (
        [row("a", gpus=4), row("b", gpus=2)],
        ("strategy=backup_workers", "strategy.num_backup=3"),
        r"^jobs=given: job b: strategy.num_backup=3",
    ),
    "convergence": (
        [row("a")],
        ("stop_at_convergence=true", "workload.convergence={evaluations:5,max_change:0.1}"),
        r"^jobs=given: job a: stop_at_convergence=true: backend=none measures no .*set",
    ),
    "rare stragglers": (
        [row("a", iterations=2)],
        ("replay.detail=gpus_only", "straggler=transient", "straggler.probability=0.000001"),
        r"^straggler=transient: slows nobody down with",
    ),
    "live without GPUs": ([row("a")], (*LIVE, "cluster.hosts.gpus=null"), r"^cluster.hosts.gpus=null: every worker"),
    "live on modelled hosts": (
        [row("a", model="")],
        (*LIVE, "cluster=star_servers"),
        r"^jobs=given: job a: runtime=live: the cluster is only modelled",
    ),
    "live model of another": ([row("a")], LIVE, r"^jobs=given: job a: backend=numpy: trains workload=ledger, and"),
    "no job": ([], (), r"^jobs=given: gives no job"),
    "table": ([row("a")], ("replay.models=nowhere",), r"^replay.models=nowhere: cannot be read"),
    "seed of its own": ([row("a", settings=["seed=7"])], (), r"^jobs=given: job a: settings=seed=7: has no effect"),
    "batch of a model": (
        [row("a", settings=["workload.global_batch_samples=512"])],
        (),
        r"^jobs=given: job a: settings=workload.global_batch_samples=512: has no effect, as model=resnet20 has a batch",
    ),
    "length twice": (
        [row("a", iterations=None), row("b", settings=["workload.epochs=3"])],
        (),
        r"^jobs=given: job b: settings=workload.epochs=3: has no effect, as the source says how long the job is;",
    ),
    "setting of all": ([row("a", settings=["cluster=local"])], (), r"^jobs=given: job a: settings=cluster=local: is"),
}


@pytest.mark.parametrize(
    ("lacks", "line"),
    [
        ("network", r"^jobs=given: job a: cluster.hosts: no network; be root, or choose cluster=local$"),
        ("cgroup_cpu", r"^cluster.hosts.cpu_cores=4.0: without control groups each job would get all of it; .*cpu_by="),
    ],
)
def test_a_machine_that_cannot_hold_live_jobs_says_why(monkeypatch: pytest.MonkeyPatch, lacks: str, line: str) -> None:
    def look(name: str) -> Missing | None:
        return Missing(reason=f"no {name}", cure="be root") if name == lacks else None

    monkeypatch.setattr(LiveRuntime, "look", staticmethod(look))
    with pytest.raises(ConfigError, match=line):
        checked_set([row("a", model="")], *LIVE)


ASKING = ("strategy=star_h", "strategy.prevent=true", "prevention=star")


def test_live_jobs_that_reserve_need_quotas_of_their_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where hosts have quotas; cpulimit, which grants whole percents, is refused."""
    monkeypatch.setattr(LiveRuntime, "look", staticmethod(lambda name: None))
    checked = checked_set([row("a", model="")], *LIVE)
    assert (checked.needs, checked.real_time) == (Needs(isolation=Isolation.NETWORK, janitor=True), True)
    assert checked_set([row("a")]).needs == Needs()
    jobs, workload = [row("a", model="")], ("workload=digits", "backend=torch")
    words = (*LIVE, *workload, *ASKING)
    allocations = [
        shared_mechanisms(checked_set(jobs, *each)).allocations
        for each in (words, (*words, "cluster.hosts.cpu_cores=null"), (*words, "prevention=none"))
    ]
    assert allocations == ["cgroup", "none", "none"]
    with pytest.raises(
        ConfigError, match=r"^runtime\.cpu_by=cpulimit: grants whole percents .* prevention=star limits"
    ):
        checked_set(jobs, *words, "runtime.cpu_by=cpulimit")


@pytest.mark.few(1)
@pytest.mark.parametrize("case", long_after(BAD, 3))
def test_what_cannot_run_is_refused_in_one_line(case: str) -> None:
    rows, words, line = BAD[case]
    with pytest.raises(ConfigError, match=line) as error:
        checked_set(rows, *words)
    assert "\n" not in str(error.value)


def test_a_jobs_length_follows_from_its_duration() -> None:
    """Undisturbed iterations of it last as long as the source says; a cap and a factor apply."""
    words = ("replay.max_iterations=null", "replay.duration_scale=0.5")
    job = checked_set([row("a", iterations=None, duration_s=200.0)], *words).jobs[0]
    assert job.request.duration_s == pytest.approx(100.0, rel=0.01)
    assert job.checked.config.workload.task["num_samples"] == job.iterations * 2 * 128
    own = checked_set([row("a", model="anything")], "replay.models=null", "cluster.costs=star_lstm").jobs[0]
    assert own.checked.config.cluster.costs == "star_lstm", "without a table of models all jobs are the run's own"
    assert own.checked.config.workload.global_batch_samples == 2 * 16  # 128 of 8 workers
    capped = checked_set([row("a", iterations=None, duration_s=200.0)], "replay.max_iterations=7").jobs[0]
    assert capped.iterations == 7


def test_a_job_has_the_size_the_model_and_the_settings_that_its_source_says() -> None:
    """Where the source gives no length, the epochs of its own settings."""
    rows = [row("a", gpus=3, servers=2, model="vgg16"), row("b", settings=["strategy=bsp"])]
    first, second = checked_set(rows, "strategy=ssp").jobs
    config = first.checked.config
    assert (config.num_workers, config.topology.num_servers, config.cluster.costs) == (3, 2, "star_vgg16")
    assert config.workload.global_batch_samples == 3 * 128
    assert config.workload.task["num_parameters"] == 14811136
    assert [job.checked.config.names.strategy for job in (first, second)] == ["ssp", "bsp"]
    assert [job.checked.config.seed for job in (first, second)] == [seed_of(0, 0), seed_of(0, 1)]
    rows = [row(name, iterations=None, settings=own) for name, own in (("a", []), ("b", ["workload.epochs=3"]))]
    usual, longer = checked_set(rows, "workload.epochs=1", "replay.max_iterations=null").jobs
    assert longer.iterations == pytest.approx(3 * usual.iterations, abs=3)


def test_seconds_of_a_source_are_those_of_a_job_that_only_holds_gpus() -> None:
    """A scheduler's log says what its iterations took; what trains takes as long as the costs say."""
    rows = [row("a", iterations=100, duration_s=5000.0), row("b", iterations=100)]
    rows.append(row("c", iterations=1, duration_s=8.0))
    words = ("replay.max_iterations=50", "replay.duration_scale=0.5")
    counted, costed, short = checked_set(rows, *words, "replay.detail=gpus_only").jobs
    assert (counted.iterations, counted.request.duration_s) == (50, 5000.0 * 0.5 * 50 / 100)
    assert short.request.duration_s == 4.0
    training = checked_set(rows, *words).jobs[0]
    assert training.request.duration_s == costed.request.duration_s
    assert training.request.duration_s != counted.request.duration_s


def test_jobs_that_only_hold_gpus_are_checked_once_for_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 jobs those differ that have other sizes, models or settings; each has its own length."""
    seen: list[int] = []
    check = checks.check_job

    def counting(config: Config, start: Path | None = None) -> CheckedJob:
        seen.append(config.num_workers)
        return check(config, start)

    monkeypatch.setattr(checks, "check_job", counting)
    rows = [row(f"j{n}", gpus=1 + n % 3, iterations=2 + n) for n in range(300)]
    jobs = checked_set(rows, "replay.detail=gpus_only", "replay.max_iterations=null").jobs
    assert seen == [1, 2, 3]
    assert [job.iterations for job in jobs] == [2 + n for n in range(300)]
    assert len({job.request.duration_s for job in jobs}) == 300
    checked_set(rows[:6])
    assert len(seen) == 3 + 6


LISTED = ("jobs=list", "jobs.entries=[]", "runtime=virtual", "cluster=star_servers", "view=none")


def listed(folder: Path, *settings: str, **more: Any) -> tuple[str, ...]:
    """The command line of a file with one job that has these settings."""
    path = folder / "jobs.yaml"
    path.write_bytes(msgspec.yaml.encode([{"job": "a", "submit_s": 0, "gpus": 2, "settings": settings, **more}]))
    return (*LISTED, f"jobs.path={path}")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("straggler.name=${oc.env:STRAGGLAB_SECRET}", "resolves something else than a setting"),
        ("+hydra.job.env_set={A: b}", "is the same for all jobs"),
        ("project=/tmp", "is the same for all jobs"),
    ],
)
def test_a_file_of_jobs_may_not_say_more(
    setting: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRAGGLAB_SECRET", "xyzzy")
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        preflight(listed(tmp_path, setting, iterations=5))
    assert "xyzzy" not in str(caught.value)
    assert str(caught.value).startswith("jobs=list: job a: ")


def test_the_command_line_may_say_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the caller's own; a file may say what describes a job."""
    ready = preflight(listed(tmp_path, "strategy=ssp", "strategy.bound=7", iterations=5))
    assert ready.jobs.pending[0][1].jobs[0].checked.strategy.bound == 7  # type: ignore[union-attr,attr-defined]
    monkeypatch.setenv("STRAGGLAB_BOUND", "9")
    settings = '["strategy=ssp", "strategy.bound=${oc.env:STRAGGLAB_BOUND}"]'
    job = f"{{job: a, submit_s: 0, gpus: 2, iterations: 5, settings: {settings}}}"
    ready = preflight((*LISTED[2:], "jobs=list", f"jobs.entries=[{job}]"))
    assert ready.jobs.pending[0][1].jobs[0].checked.strategy.bound == 9  # type: ignore[union-attr,attr-defined]


def test_a_table_of_models_names_no_costs_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "tables" / "models.yaml"
    path.parent.mkdir()
    entry = "{costs: COSTS, num_parameters: 10, batch_samples: 4}"
    for costs in ("/proc/self/environ", "../../../../../../etc/passwd", "/dev/zero"):
        path.write_text("schema: 1\nmodels:\n  small: " + entry.replace("COSTS", costs))
        with pytest.raises(ConfigError, match=r"models\.small\.costs=.*: names a file outside"):
            Models(str(path), Path.cwd())
    path.write_text("schema: 1\nmodels:\n  small: " + entry.replace("COSTS", str(path.parent / "own.yaml")))
    assert Models(str(path), Path.cwd()).find("small") is not None
