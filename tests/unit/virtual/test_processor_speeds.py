"""Processors that hosts share become slower and faster by the second, by worked numbers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from analysis.records.load import load_run
from runtime.errors import ConfigError
from runtime.virtual.costs import Carry
from runtime.virtual.machines.speeds import changes_of, parse_speeds
from tests.support.cli import refusal, run_cli
from tests.unit.virtual.test_virtual_hosts import ALONE, Lab, approx, on_hosts

pytestmark = pytest.mark.usefixtures("even_quotas")
TIMED = ("runtime=virtual", "backend=none", "workload.target=null", "straggler=none", "strategy=bsp", "draw=false")
TIMED += ("eval_every_s=null", "checkpoint_every_s=null", "workload.epochs=1", "cluster.costs=costs.yaml")
HOSTS = ("cluster=hosts", "cluster.hosts.cpu_cores=null", "cluster.hosts.link_mbps=null")


@pytest.mark.parametrize(
    ("cores", "changes", "speeds", "seconds"),
    [
        (math.inf, [], [(0.0, 0.5)], 2.0),
        (math.inf, [], [(0.5, 0.5)], 1.5),  # half of the work at full speed
        (math.inf, [], [(0.5, 0.5), (1.0, 2.0)], 1.125),  # then a quarter at half, and a quarter at twice the speed
        (0.4, [], [(0.0, 0.5)], 5.0),  # 0.4 s of a slow processor in a second
        (0.4, [], [(0.0, 2.0)], 1.25),
        (4.0, [("host:0", 0.5)], [(0.0, 0.5)], 2.0),  # one thread on two slow cores
        (0.4, [("worker:0", 0.25)], [(0.0, 0.5)], 20.0),
    ],
)
def test_a_core_second_of_a_slower_processor_is_longer(
    cores: float, changes: list[tuple[str, float]], speeds: list[tuple[float, float]], seconds: float
) -> None:
    lab = Lab(on_hosts(ALONE, cores), *((0.0, target, "cpu", level) for target, level in changes))
    for at_s, speed in speeds:
        lab.at(at_s, lab.machines.run_at, speed)
    lab.work(0.0, "worker:0", 1.0)
    assert lab.run() == approx({"worker:0": seconds})


def test_messages_and_tasks_that_come_later_have_the_same_speed() -> None:
    lab = Lab(on_hosts({"worker:0": 0, "server:0": 1}, math.inf))
    lab.at(0.0, lab.machines.run_at, 0.5)
    path, carry = ("worker:0", "server:0"), Carry(0.1, 0.1)
    lab.at(0.0, lab.machines.send, "worker:0", path, 1000, 0.0, lab.then("sent"), carry)
    lab.at(0.0, lab.machines.enter, "worker:1", "host:1")
    lab.work(1.0, "worker:1", 1.0)
    lab.at(0.0, lab.machines.sleep, "worker:0", 1.0, lab.then("slept"))
    assert lab.run() == approx({"sent": 0.2, "worker:1": 3.0, "slept": 1.0})


def test_a_job_takes_longer_from_the_second_in_which_processors_are_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve iterations of 0.1 s: ten in the first second, and two at half the speed. Python alone writes the same."""
    (tmp_path / "costs.yaml").write_text("schema: 1\nvalues: {compute_base_s: 0.1}\n")
    speeds = "+runtime.speeds=[1.0,0.5]"
    for name, words in (("usual", ()), ("slow", (speeds,)), ("python", (speeds,))):
        monkeypatch.setenv("STRAGGLAB_WITHOUT", "event_loop" if name == "python" else "")
        done = run_cli(*TIMED, *HOSTS, *words, f"hydra.run.dir={name}", cwd=tmp_path)
        assert done.exit_code == 0, done.err
    usual, slow, python = (load_run(tmp_path / name) for name in ("usual", "slow", "python"))
    assert usual.end_s == pytest.approx(1.2)
    assert slow.end_s == pytest.approx(1.4)
    assert (slow.meta["engine"], python.meta["engine"].partition(":")[0]) == ("event_loop", "python")
    assert (python.path / "events.jsonl").read_bytes() == (slow.path / "events.jsonl").read_bytes()


def test_a_speed_for_each_second_the_last_one_lasts() -> None:
    assert parse_speeds(None) == ()
    assert changes_of(parse_speeds([1, 0.5, 0.5, 1.0])) == [(1.0, 0.5), (3.0, 1.0)]
    assert changes_of([0.9]) == [(0.0, 0.9)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "names no second"),
        ([1.0, 0.0], "must be more than 0"),
        ([math.nan], "must be a finite number"),
        ([True], "must be a number"),
        (0.9, "must be a list"),
        ({"a": 1.0}, "must be a list"),
    ],
)
def test_other_speeds_are_refused(given: object, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"runtime\.speeds.*{said}"):
        parse_speeds(given)


def test_without_hosts_nothing_has_a_speed(tmp_path: Path) -> None:
    line = refusal("runtime=virtual", "+runtime.speeds=[0.5]", f"hydra.run.dir={tmp_path / 'run'}")
    assert line == "runtime.speeds: is of the processors that hosts share; choose cluster=hosts"
