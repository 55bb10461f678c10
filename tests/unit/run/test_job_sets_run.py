"""Sets of jobs on shared hosts of the virtual clock: each as alone, or slower where neighbours share something."""

from __future__ import annotations

import errno
import os
import re
import signal
from math import nan
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

from analysis.records.cluster import load_cluster
from analysis.records.load import load_run
from runtime.errors import FAILED, NO_SPACE, ConfigError
from runtime.record.cluster import ClusterRecorder, HostRow
from runtime.run.job import JobFailed, run_job
from runtime.run.jobs import replay
from runtime.run.jobs.replay import run_set
from runtime.run.jobs.running import placed_job
from runtime.virtual.cluster.counted import CountedCluster
from runtime.virtual.cluster.use import HostUse
from runtime.virtual.machines.sites import PAYLOAD_FRAC
from runtime.virtual.runtime import VirtualRuntime
from strategies.protocol import Command, Event, Places
from tests.support.job_sets import Raising, checked_set, gpu_violations, notes_of, row, run_rows, table_of

MIXED = [
    row("a", gpus=8, servers=2, iterations=4, model="vgg16"),
    row("b", 0.5, gpus=6, servers=3, iterations=4, model="lstm"),
    row("c", 0.5, gpus=12, servers=4, iterations=3, model="resnet56"),
    row("d", 1.0, gpus=10, servers=2, iterations=3, model="googlenet"),
    row("e", 1.5, gpus=9, servers=5, iterations=4, model="transformer"),
    row("f", 2.0, gpus=4, servers=1, iterations=5, model="alexnet"),
]
"""More GPUs than there are, and servers on the hosts of workers."""
PACKED = ("policy=fifo", "placement=pack")
TREE = ("strategy=star_h", "strategy.tree_fanout=3", "strategy.warmup_iters=0", "straggler=transient", "record=events")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("mixed") / "run"
    run_rows(run_dir, MIXED, *PACKED, "replay.use_every_s=0.1", "strategy=star_h")
    return run_dir


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "words",
    [*(("strategy=star_h", "straggler=transient", f"record={record}") for record in ("events", "iterations")), TREE],
    ids=["events", "iterations", "tree"],
)
def test_one_job_of_a_set_leaves_the_bytes_of_that_job_alone(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Alone: the same places on machines of its own, by the runtime's own way."""
    assert run_set(checked_set([row("only", gpus=9, servers=2)], *words), tmp_path / "set").exit_code == 0
    job = checked_set([row("only", gpus=9, servers=2)], *words).jobs[0]
    found = table_of(tmp_path / "set").loc["only"]
    places = Places(workers=tuple(found.worker_hosts), servers=tuple(found.server_hosts))
    assert run_job(placed_job(job.checked, places, 8), tmp_path / "only").exit_code == 0
    own, alone = tmp_path / "set" / "jobs" / "only", tmp_path / "only"
    for name in ("events.jsonl", "plan.json", *(["iterations.parquet"] if "record=iterations" in words else [])):
        assert (own / name).read_bytes() == (alone / name).read_bytes()
    metas = [msgspec.json.decode((path / "meta.json").read_bytes()) for path in (own, alone)]
    engine = metas[1].pop("engine")
    assert words is TREE or engine == "event_loop"  # only of a job by itself
    assert metas[0] | {"started_at": ""} == metas[1] | {"started_at": ""}


def host_violations(hosts: pd.DataFrame, machines: list[dict[str, Any]]) -> list[str]:
    """Rows in which a host did more than it can; a quota lets one period's more through (10 ms of its cores)."""
    found = []
    before: dict[int, float] = {}
    for one in hosts.itertuples():
        machine, period_s = machines[one.host], one.t_s - before.get(one.host, 0.0)
        before[one.host] = one.t_s
        link = machine["link_bytes_per_s"] * PAYLOAD_FRAC * (1 + 1e-9)
        if one.cpu_cores * period_s > machine["cores"] * (period_s + 0.011):
            found.append(f"cores of {one.host} at {one.t_s}")
        if max(one.in_bytes_per_s, one.out_bytes_per_s) > link:
            found.append(f"link of {one.host} at {one.t_s}")
    return found


def test_no_gpu_core_or_link_is_used_twice(mixed: Path) -> None:
    """And jobs start in the order of their submission."""
    table = table_of(mixed)
    assert table.start_s.is_monotonic_increasing
    assert (table.start_s > table.submit_s).any()
    assert (table.start_s >= table.submit_s).all()
    assert (table.status == "done").all()
    assert table.iterations.tolist() == [one["iterations"] for one in MIXED]
    machines = msgspec.json.decode((mixed / "meta.json").read_bytes())["machine"]["hosts"]
    hosts = pd.read_parquet(mixed / "hosts.parquet")
    assert gpu_violations(notes_of(mixed), [machine["gpus"] for machine in machines]) == []
    assert host_violations(hosts, machines) == []
    assert hosts.gpus_used.max() == 8
    assert hosts.cpu_cores.max() > 0.9 * 96  # it was near the limit
    assert gpu_violations(notes_of(mixed), [7] * 8), "what is used twice is seen"
    assert host_violations(hosts, [machine | {"cores": 64} for machine in machines])
    assert host_violations(hosts.assign(in_bytes_per_s=1.3e10), machines)


def test_the_work_of_hosts_is_the_work_of_their_tasks(mixed: Path) -> None:
    """Core-seconds of all hosts and periods: of each iteration what its record says, of each update what the cost
    model says. With the last update the job is over before servers carry it out."""
    hosts = pd.read_parquet(mixed / "hosts.parquet")
    period_s = hosts.groupby("host").t_s.diff().fillna(hosts.t_s)
    used_s = (hosts.cpu_cores * period_s).sum()
    workers_s = servers_s = 0.0
    for job in checked_set(MIXED, *PACKED).jobs:
        run = load_run(mixed / "jobs" / job.request.job)
        workers_s += run.tables.iterations.cpu_s.sum()
        applied = run.tables.iterations.applied_version
        per_gradient_s = job.request.server.cpu_s * job.request.servers / job.request.gpus
        servers_s += per_gradient_s * (applied < applied.max()).sum()
    assert used_s == pytest.approx(workers_s + servers_s, rel=1e-6)


@pytest.mark.long(like="test_no_gpu_core_or_link_is_used_twice")
def test_names_of_jobs_change_nothing_but_names(tmp_path: Path, mixed: Path) -> None:
    names = dict(zip("abcdef", ("zeta", "b", "10", "9", "aa", "A"), strict=True))
    renamed = [one | {"job": names[one["job"]]} for one in MIXED]
    run_rows(tmp_path / "other", renamed, *PACKED, "replay.use_every_s=0.1", "strategy=star_h")
    first, second = (table_of(place).reset_index(drop=True) for place in (mixed, tmp_path / "other"))
    pd.testing.assert_frame_equal(first.assign(job=first.job.map(names)), second)
    for old, new in names.items():
        paths = mixed / "jobs" / old / "events.jsonl", tmp_path / "other" / "jobs" / new / "events.jsonl"
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_an_interrupt_ends_all_in_good_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a time when one job waits. How far others come until it is seen depends on whether machines are compiled."""
    sample, sent = HostUse.sample, []

    def interrupting(self: HostUse, now: float, gpus: Any) -> Any:
        if now > 1.6 and not sent:  # a second one would end these tests
            sent.append(now)
            os.kill(os.getpid(), signal.SIGTERM)
        return sample(self, now, gpus)

    monkeypatch.setattr(HostUse, "sample", interrupting)
    long = [one | {"iterations": 50} for one in MIXED] + [row("late", 1e5)]
    words = ("replay.max_iterations=null", "replay.use_every_s=0.25", *PACKED)
    assert run_set(checked_set(long, *words), tmp_path / "run").exit_code == 128 + signal.SIGTERM
    table = table_of(tmp_path / "run")
    assert set(table.status) == {"interrupted", "waiting", "unsubmitted"}
    assert table.loc["late"].status == "unsubmitted"
    ended = {"t": 0, "type": "Finished", "status": "interrupted", "reason": ""}
    assert notes_of(tmp_path / "run")[-1] | {"t": 0} == ended
    for job in table.index[table.status == "interrupted"]:
        run = load_run(tmp_path / "run" / "jobs" / job)
        assert run.status == "interrupted"


def test_jobs_that_fail_leave_the_others_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that breaks a law, one whose strategy has a bug, one that cannot be created."""
    session = VirtualRuntime.session

    def failing(self: VirtualRuntime, spec: Any, *args: Any) -> Any:
        if spec.run_dir.name == "barred":
            raise PermissionError(13, "no such luck")
        return session(self, spec, *args)

    monkeypatch.setattr(VirtualRuntime, "session", failing)
    rows = [row(name, settings=[f"strategy={name}"]) for name in ("lawless", "raising")]
    rows = [row("good"), *rows, row("barred", 5.0), row("later", 10.0)]
    with pytest.raises(JobFailed, match=r"3 of 5 jobs are not done: job lawless failed") as error:
        run_set(checked_set(rows, again=other_strategy), tmp_path / "run")
    assert error.value.exit_code == FAILED
    assert len(str(error.value).splitlines()) == 1
    statuses = table_of(tmp_path / "run").status.to_dict()
    bad = ("lawless", "raising", "barred")
    assert statuses == {"good": "done", "later": "done", **dict.fromkeys(bad, "failed")}
    ended = {note["job"]: note["reason"] for note in notes_of(tmp_path / "run") if note["type"] == "Ended"}
    assert ended["lawless"].startswith("the strategy broke a law")
    said = r"RuntimeError at job_sets.py:\d+: a bug of this strategy \(see logs/coordinator.log\)"
    assert re.fullmatch(said, ended["raising"])
    assert ended["barred"].startswith("PermissionError")
    log = tmp_path / "run" / "jobs" / "raising" / "logs" / "coordinator.log"
    assert "Traceback (most recent call last)" in log.read_text()
    assert {load_run(tmp_path / "run" / "jobs" / job).status for job in bad} == {"failed"}


def other_strategy(raw: dict[str, Any], settings: tuple[str, ...]) -> dict[str, Any]:
    """Of the jobs that have a setting of their own."""
    return {**raw, "strategy": {"_target_": f"tests.support.job_sets.{settings[0].partition('=')[2].capitalize()}"}}


def test_ctrl_c_in_a_strategy_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Raising, event: Event) -> list[Command]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Raising, "handle", interrupted)
    rows = [row("good"), row("bad", settings=["strategy=raising"])]
    with pytest.raises(KeyboardInterrupt):
        run_set(checked_set(rows, again=other_strategy), tmp_path / "run")


@pytest.mark.long(like="test_one_job_of_a_set_leaves_the_bytes_of_that_job_alone")
def test_records_are_open_only_while_their_jobs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most, sample = [0], HostUse.sample

    def counting(self: HostUse, now: float, gpus: Any) -> Any:
        links = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        most[0] = max(most[0], sum(link.startswith(str(tmp_path)) and "events.jsonl" in link for link in links))
        return sample(self, now, gpus)

    monkeypatch.setattr(HostUse, "sample", counting)
    rows = [row(f"j{n}", 20.0 * n, gpus=1) for n in range(12)]
    run_rows(tmp_path / "run", rows, "replay.use_every_s=0.5")
    assert most == [1]


def test_without_detail_jobs_hold_their_gpus_for_their_durations(tmp_path: Path) -> None:
    """Two of 40 GPUs and 100 s, submitted at 0 and 30 s: the second waits 70 s."""
    about: dict[str, Any] = {"gpus": 40, "iterations": None}
    rows = [row("a", duration_s=100.0, **about), row("b", 30.0, duration_s=50.0, **about)]
    words = ("replay.detail=gpus_only", "replay.max_iterations=null")
    table = run_rows(tmp_path / "run", rows, *words)
    assert table.start_s.tolist() == pytest.approx([0.0, 100.0], rel=0.01)
    assert table.end_s.tolist() == pytest.approx([100.0, 150.0], rel=0.01)
    assert not (tmp_path / "run" / "jobs").exists()
    hosts = pd.read_parquet(tmp_path / "run" / "hosts.parquet")
    assert hosts[hosts.t_s == 50.0].gpus_used.tolist() == [8] * 5 + [0] * 3
    assert hosts.t_s.unique()[:3].tolist() == [5.0, 10.0, 15.0]
    assert hosts.t_s.max() == table.end_s.max()
    assert hosts[hosts.t_s == hosts.t_s.max()].gpus_used.tolist() == [0] * 8


def test_an_interrupt_ends_a_long_time_in_which_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the tenth sample: a job that holds GPUs gives them back then."""
    sample, seen = CountedCluster._sample, []

    def interrupting(self: CountedCluster, at_s: float) -> None:
        sample(self, at_s)
        seen.append(at_s)
        if len(seen) == 10:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(CountedCluster, "_sample", interrupting)
    rows = [row("a", gpus=40, iterations=9, duration_s=1e3), row("late", 1e4)]
    checked = checked_set(rows, "replay.detail=gpus_only", "replay.use_every_s=1")
    assert run_set(checked, tmp_path / "run").exit_code == 128 + signal.SIGTERM
    assert table_of(tmp_path / "run").status.to_dict() == {"a": "interrupted", "late": "unsubmitted"}
    last = notes_of(tmp_path / "run")[-2:]
    assert [(note["type"], note["t"]) for note in last] == [("Ended", 10.0), ("Finished", 10.0)]
    assert seen == [*range(1, 11), 10.0]


def test_a_killed_set_leaves_what_its_hosts_were_used_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the torn line; a set that is not killed has all of it as a table, and no lines."""
    rows, words = [row("a", gpus=9, iterations=20)], ("replay.use_every_s=0.5",)
    run_rows(tmp_path / "whole", rows, *words)
    assert not (tmp_path / "whole" / "hosts.jsonl").exists()
    whole = load_cluster(tmp_path / "whole").hosts
    sample = HostUse.sample

    def killing(self: HostUse, now: float, gpus: Any) -> Any:
        if now >= 3.0:
            os.kill(os.getpid(), signal.SIGKILL)
        return sample(self, now, gpus)

    monkeypatch.setattr(HostUse, "sample", killing)
    child = os.fork()
    if not child:
        run_set(checked_set(rows, *words), tmp_path / "run")
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    with (tmp_path / "run" / "hosts.jsonl").open("a") as file:
        file.write("[3.0,0,")
    found = load_cluster(tmp_path / "run")
    assert (found.status, found.hosts.t_s.max()) == ("killed", 2.5)
    pd.testing.assert_frame_equal(found.hosts, whole[whole.t_s <= 2.5])
    recorder = ClusterRecorder(tmp_path, [])
    recorder.hosts([HostRow(1.0, 0, 2, nan, 3.0, nan)])
    assert (tmp_path / "hosts.jsonl").read_bytes() == b"[1.0,0,2,null,3.0,null]\n", "without counters it is unknown"
    recorder.close()
    assert pd.read_parquet(tmp_path / "hosts.parquet").isna().to_numpy().tolist() == [[False] * 3 + [True, False, True]]


def test_a_full_disk_after_a_signal_says_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no other job of a sweep starts."""

    class Interrupted:
        now, interrupted_by = 1.0, signal.SIGINT

        def run(self) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(replay, "_cluster", lambda *given: Interrupted())
    with pytest.raises(JobFailed, match="No space left") as caught:
        run_set(checked_set([row("a")]), tmp_path / "run")
    assert (caught.value.exit_code, caught.value.interrupted_by) == (NO_SPACE, signal.SIGINT)


def events_of(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    lines = [msgspec.json.decode(line) for line in (run_dir / "events.jsonl").read_bytes().splitlines()]
    return [line["event"] for line in lines if line["kind"] == "event" and line["event"]["type"] == kind]


def test_every_job_has_its_aggregators_on_the_hosts_of_its_workers(tmp_path: Path) -> None:
    table = run_rows(tmp_path / "run", MIXED, *PACKED, *TREE)
    assert set(table.status) == {"done"}
    for job, found in table.iterrows():
        (started,) = events_of(tmp_path / "run" / "jobs" / str(job), "Started")
        hosts = {name: int(place.removeprefix("host:")) for name, place in started["places"].items()}
        summing = [hosts[name] for name in hosts if name.startswith("aggregator:")]
        assert len(summing) == 3
        assert set(summing) <= set(found.worker_hosts)
        arrived = events_of(tmp_path / "run" / "jobs" / str(job), "Arrived")
        assert any(event["grad"].get("members") for event in arrived)


def test_where_jobs_are_preempted_their_aggregators_would_stay(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^policy=las: preempts, and strategy=star_h has aggregators on hosts"):
        checked_set([row("a", gpus=8)], "policy=las", *TREE)
