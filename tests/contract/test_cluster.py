"""What every policy of ``conf/policy`` and every placement of ``conf/placement`` owes: a new YAML gets all of this."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import random
from collections.abc import Sequence
from dataclasses import fields
from inspect import isabstract
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from omegaconf import OmegaConf

import strategies.cluster
from runtime.config.instantiate import instantiate
from runtime.core.cluster.checks import problem_of
from runtime.errors import ConfigError
from strategies.cluster.placements.first_fit import FirstFit
from strategies.cluster.placements.pack import Pack
from strategies.cluster.policies.sjf import Sjf
from strategies.protocol import (
    ClusterCommand,
    JobRequest,
    JobState,
    Machine,
    Placement,
    Places,
    Policy,
    PreemptJob,
    Room,
    StartJob,
    TaskDemand,
)
from tests.contract.cluster_laws import by_name, impure_places, oversubscribed, played, renamed, unfinished
from tests.support.clusters_of_jobs import machines_of, random_jobs
from tests.support.long_tests import long_after

CONF = Path(__file__).resolve().parents[2] / "conf"
POLICIES = sorted(path.stem for path in (CONF / "policy").glob("*.yaml"))
PLACEMENTS = sorted(path.stem for path in (CONF / "placement").glob("*.yaml"))
CLUSTERS = {
    "one": machines_of(8),
    "unequal": machines_of(4, 0, 1, 8, 2, cpu_cores=8.0, link_bytes_per_s=1e9),
    "many": machines_of(*[2] * 6),
}
DEMAND = TaskDemand(cpu_cores=0.5, link_bytes_per_s=1e6, cpu_s=1.0, gpu_s=3.0)
QUICK = {"las": {"thresholds": [40.0, 150.0]}}
"""Settings with which a policy that waits for an hour finds something to do."""

every_policy = pytest.mark.parametrize("name", POLICIES)
every_placement = pytest.mark.parametrize("placement", PLACEMENTS)
RUNS = [(*about, seed) for seed in range(3) for about in product(POLICIES, PLACEMENTS, CLUSTERS)]
every_run = pytest.mark.parametrize("run", RUNS, ids=lambda run: "-".join(str(part) for part in run))


def spec(group: str, name: str, **changes: Any) -> dict[str, Any]:
    loaded = OmegaConf.to_container(OmegaConf.load(CONF / group / f"{name}.yaml"))
    return {**{str(key): value for key, value in dict(loaded).items()}, **changes}  # type: ignore[call-overload]


def policy_of(name: str) -> Policy:
    made: Policy = instantiate(spec("policy", name, **QUICK.get(name, {})), "policy")
    return made


def placement_of(name: str) -> Placement:
    made: Placement = instantiate(spec("placement", name), "placement")
    return made


def jobs_of(seed: int, count: int = 50, prefix: str = "") -> list[JobRequest]:
    found = random_jobs(seed, count, (1, 1, 2, 3, 8), every_s=20.0, whole=seed % 2 == 1, servers=(0, 1, 3))
    return [msgspec.structs.replace(one, job=prefix + one.job, worker=DEMAND, server=DEMAND) for one in found]


@pytest.mark.few(36)
@every_run
def test_it_is_lawful_total_and_every_job_ends_once(run: tuple[str, str, str, int]) -> None:
    """Starts, departures and ends come late and at random times; a preempted job comes back."""
    name, placement, cluster, seed = run
    jobs, machines = jobs_of(seed), CLUSTERS[cluster]
    port, watched, refused = played(policy_of(name), placement_of(placement), machines, jobs, seed)
    assert refused + oversubscribed(port, machines, jobs) + unfinished(port, jobs) + watched.idle == []


@every_policy
@pytest.mark.parametrize("seed", long_after(range(3), 1))
def test_it_lives_with_jobs_that_restart_tasks_elsewhere(name: str, seed: int) -> None:
    """A worker changes its GPU whenever the placement has one for it, and the policy is asked again."""
    jobs, machines = jobs_of(seed), CLUSTERS["unequal"]
    for placement in ("first_fit", "spread", "balanced_ps"):
        port, watched, refused = played(policy_of(name), placement_of(placement), machines, jobs, seed, relocates=True)
        assert refused + oversubscribed(port, machines, jobs) + unfinished(port, jobs) + watched.idle == []
        moved = {about["task"].partition(":")[0] for _, kind, about in port.notes if kind == "Moved"}
        assert moved == {"worker", "server"}


@every_policy
def test_it_does_the_same_again_and_so_do_pickled_copies(name: str) -> None:
    jobs, machines = jobs_of(1), CLUSTERS["unequal"]
    first = played(policy_of(name), Pack(), machines, jobs)[1].answers
    assert played(policy_of(name), Pack(), machines, jobs)[1].answers == first
    copied = played(policy_of(name), Pack(), machines, jobs, reborn=lambda own: pickle.loads(pickle.dumps(own)))[1]
    assert copied.answers == first
    assert any(answer for _, answer in first)


@every_policy
def test_names_of_jobs_mean_nothing(name: str) -> None:
    jobs, machines = jobs_of(2), CLUSTERS["many"]
    others, old = renamed(jobs, 0)
    first = played(policy_of(name), Pack(), machines, jobs)[1].answers
    assert by_name(played(policy_of(name), Pack(), machines, others)[1].answers, old) == first


@every_policy
def test_it_preempts_only_if_it_says_so(name: str) -> None:
    """And one that says so does, where there is reason to."""
    answers = [
        one
        for seed in (0, 1)
        for _, many in played(policy_of(name), Pack(), machines_of(8), jobs_of(seed))[1].answers
        for one in many
    ]
    assert any(isinstance(one, PreemptJob) for one in answers) == policy_of(name).preempts


@every_policy
def test_who_needs_durations_refuses_jobs_without_and_others_do_not(name: str) -> None:
    policy, unknown = policy_of(name), JobRequest(job="x", submit_s=0.0, gpus=1)
    problem = problem_of(unknown, Room(machines_of(1)), policy, FirstFit())
    assert (problem or "").startswith("job x: its duration is unknown") == policy.needs_durations
    if not policy.needs_durations:
        jobs = [msgspec.structs.replace(one, duration_s=None) for one in jobs_of(0)]
        port, _, refused = played(policy, Pack(), machines_of(8), jobs)
        assert refused + unfinished(port, jobs) == []


@every_placement
def test_a_placement_keeps_gangs_whole_and_the_books_as_they_are(placement: str) -> None:
    """And whether a gang has a place goes by the number of its GPUs alone."""
    made = placement_of(placement)
    for seed in range(20):
        draws = random.Random(seed)
        room = Room(CLUSTERS["unequal"])
        for one in jobs_of(seed, 6):
            if (places := made.place(one, room)) is not None and draws.random() < 0.7:
                room.take(one, places)
        assert impure_places(made, room, jobs_of(seed + 100, 12, "other")) == []


@every_policy
@pytest.mark.parametrize("most", [1, 2])
def test_policies_live_with_a_placement_that_says_no(name: str, most: int) -> None:
    jobs, machines = jobs_of(3), CLUSTERS["unequal"]
    port, watched, refused = played(policy_of(name), Pack(max_machines=most), machines, jobs, 3)
    assert refused + oversubscribed(port, machines, jobs) + unfinished(port, jobs) + watched.idle == []


def refusal(group: str, name: str, **changes: Any) -> str:
    try:
        instantiate(spec(group, name, **changes), group)
    except ConfigError as error:
        return str(error)
    return ""


def nonsense(value: Any) -> list[Any]:
    match value:
        case bool():
            return ["perhaps", 2]
        case str():
            return ["nonsense", 7]
        case list():
            return [["x"], [5.0, 5.0], [-1.0]]
        case _:
            return [-1, "many", float("nan")]


ALL = [("policy", name) for name in POLICIES] + [("placement", name) for name in PLACEMENTS]
BAD = [(g, n, f, bad) for g, n in ALL for f, value in spec(g, n).items() if f != "_target_" for bad in nonsense(value)]


@pytest.mark.parametrize(("group", "name", "field", "bad"), BAD)
def test_a_setting_out_of_range_is_refused_by_its_name(group: str, name: str, field: str, bad: Any) -> None:
    assert refusal(group, name, **{field: bad}).startswith(f"{group}.{field}")


@pytest.mark.parametrize(("group", "name"), ALL)
def test_the_yaml_shows_every_setting_and_is_accepted(group: str, name: str) -> None:
    assert refusal(group, name) == ""
    made = instantiate(spec(group, name), group)
    assert set(spec(group, name)) - {"_target_"} == {one.name for one in fields(made)}
    assert isinstance(made, Policy if group == "policy" else Placement)


def test_every_policy_and_placement_has_a_file_in_conf_and_the_other_way_round() -> None:
    for module in pkgutil.walk_packages(strategies.cluster.__path__, "strategies.cluster."):
        importlib.import_module(module.name)
    for group, base in (("policy", Policy), ("placement", Placement)):
        classes = [cls for child in base.__subclasses__() for cls in (child, *child.__subclasses__())]
        own = {f"{cls.__module__}.{cls.__name__}" for cls in classes if not isabstract(cls)}
        made = {name for name in own if name.startswith("strategies.")}
        assert made == {spec(group, name)["_target_"] for one, name in ALL if one == group}


@every_placement
def test_servers_go_only_where_they_may(placement: str) -> None:
    machines = CLUSTERS["unequal"]
    job = JobRequest(job="x", submit_s=0.0, gpus=3, servers=5)
    for kind in ("gpu", "cpu"):
        made: Placement = instantiate(spec("placement", placement, servers_on=kind), "placement")
        places = made.place(job, Room(machines))
        assert places is not None
        assert {machines[number].gpus > 0 for number in places.servers} == {kind == "gpu"}
        made.validate(machines)
    with pytest.raises(ValueError, match=r"^servers_on=cpu: no host of this cluster is without GPUs"):
        made.validate(machines_of(1, 2))


class Planted(Policy):
    """Starts whatever fits, by a rule that is wrong in one way."""

    def __init__(self) -> None:
        self.waiting: dict[str, JobState] = {}

    def changed(self, old: JobState | None, new: JobState | None) -> None:
        if old is not None:
            self.waiting.pop(old.request.job, None)
        if new is not None and new.phase == "waiting":
            self.waiting[new.request.job] = new

    def decide(self, t: float, room: Room, placement: Placement) -> Sequence[ClusterCommand]:
        found: list[ClusterCommand] = []
        for state in self.waiting.values():
            places = placement.place(state.request, room)
            if places is not None:
                found.append(StartJob(job=state.request.job, places=places))
                room.take(state.request, places)
        return self.all(found)

    def all(self, found: list[ClusterCommand]) -> list[ClusterCommand]:
        return found


class Lazy(Planted):
    work_conserving = True

    def all(self, found: list[ClusterCommand]) -> list[ClusterCommand]:
        return found[:1]


class Sneaky(Planted):
    def all(self, found: list[ClusterCommand]) -> list[ClusterCommand]:
        return [*found, *(PreemptJob(job=one.job) for one in found[:1])]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Sneaky, "has not declared that it preempts"),
        (Lazy, "has a place and does not start"),
    ],
)
def test_a_planted_fault_is_caught(policy: type[Planted], said: str) -> None:
    machines = CLUSTERS["unequal"]
    found: list[str] = []
    for seed in range(3):
        _, watched, refused = played(policy(), FirstFit(), machines, jobs_of(seed), seed)
        found += refused + watched.idle
    assert any(said in one for one in found)


class Taking(Placement):
    """Changes the books that it was given."""

    def place(self, request: JobRequest, room: Room) -> Places | None:
        places = FirstFit().place(request, room)
        if places is not None:
            room.take(request, places)
        return places


def test_a_planted_placement_is_caught() -> None:
    jobs = [JobRequest(job=f"j{gpus}", submit_s=0.0, gpus=gpus) for gpus in (1, 2, 3)]
    assert any("the books were changed" in one for one in impure_places(Taking(), Room(machines_of(8)), jobs))


def test_a_lost_or_oversubscribed_job_is_caught() -> None:
    jobs: list[JobRequest] = jobs_of(0)
    machines: list[Machine] = machines_of(8)
    port, _, _ = played(Sjf(), Pack(), machines, jobs)
    assert unfinished(port, jobs) == oversubscribed(port, machines, jobs) == []
    del port.notes[-1]
    assert len(unfinished(port, jobs)) == 1
    assert oversubscribed(port, machines_of(2), jobs)
