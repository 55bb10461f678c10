"""Whether a set of jobs can run: every job of the source becomes an ordinary checked job before the first starts.

A job is refused with one line that names it. Where its tasks will be is not known yet, so they are checked anywhere.
Rules refuse combinations of settings (:mod:`runtime.run.jobs.rules`). This module refuses contents of a source of jobs
(no job, a name twice, more GPUs than there are), and an iteration that would take no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from injectors.arrivals.base import Arrivals, Submission
from runtime.api import Needs
from runtime.cluster.device import DeviceProfile, parse_device
from runtime.cluster.hosts import Host, Hosts, parse_machines
from runtime.config.anchoring import anchored
from runtime.config.checking import show
from runtime.config.foreign import refuse_foreign
from runtime.config.instantiate import TARGET, instantiate, locate
from runtime.config.parse import Config, parse
from runtime.config.rules import check_combinations
from runtime.core.cluster.brain.grants import Grants
from runtime.core.cluster.brain.placing import StartCores, WithinCores
from runtime.core.cluster.checks import problem_of
from runtime.errors import ConfigError
from runtime.run.checks.backends import END
from runtime.run.checks.facts import facts_of
from runtime.run.checks.job import CheckedJob, check_job, explained
from runtime.run.jobs.checked import CheckedSet, SetJob
from runtime.run.jobs.models import Model, Models
from runtime.run.jobs.rules import IN_SET, MODELS, PLACES, SETS, InSet, Modelled, SetFacts, asks_for_nodes
from runtime.run.jobs.shaping import (
    Raw,
    duration_s_of,
    iterations_of,
    refuse_replaced,
    refuse_shared,
    seed_of,
    sized,
    with_epochs,
    with_length,
)
from runtime.virtual.cluster.undisturbed import Undisturbed, undisturbed
from runtime.virtual.costs import CostModel, load_costs
from strategies.protocol import JobRequest, Machine, Placement, Policy, Prevention, Reserve, Room, TaskDemand

Again = Callable[[tuple[str, ...]], Mapping[str, Any]]
"""Composes the run's configuration with more settings."""


def check_set(raw: Mapping[str, Any], written: Config, start: Path, again: Again) -> CheckedSet:
    """Check all jobs of the source that ``jobs`` names; raises :class:`ConfigError` with one line."""
    config, source = anchored(written, start), written.names.jobs
    real_time: bool = locate(config.runtime[TARGET]).real_time  # type: ignore[attr-defined]
    policy: Policy = instantiate(config.policy, "policy")
    check_combinations(SETS, SetFacts(config=config, policy=policy, real_time=real_time))
    assert config.cluster.hosts is not None, "a rule refuses it"
    hosts = parse_machines(config.cluster.hosts)
    arrivals: Arrivals = instantiate(config.jobs, "jobs")
    placement: Placement = instantiate(config.placement, "placement")
    prevention: Prevention = instantiate(config.prevention, "prevention")
    machines = tuple(_machine(host) for host in hosts.hosts)
    with explained(config.policy, "policy"):
        policy.validate(machines)
    with explained(config.jobs, "jobs"):
        submissions = arrivals.submissions(config.seed)
    if not submissions:
        raise ConfigError(f"jobs={source}: gives no job")
    shaper = _Shaper(raw, config, start, again, hosts, foreign=getattr(arrivals, "foreign", False))
    jobs, names = list[SetJob](), set[str]()
    empty = Room(machines)
    for number, submission in enumerate(submissions):
        with _name(f"jobs={source}: job {submission.job}"):
            if submission.job in names:
                raise ConfigError("there is another one of this name")
            names.add(submission.job)
            _refuse_size(submission, empty)
            job = shaper.shape(number, submission)
        jobs.append(job)
    start_cores = _start_cores(source, jobs, empty, policy, placement)
    asks = config.replay.detail == "iterations" and any(Reserve in job.checked.strategy.needs for job in jobs)
    if asks and start_cores and config.replay.detail == "iterations":
        raise ConfigError(
            f"jobs={source}: one job reserves room on hosts (strategy.prevent=true), and job {next(iter(start_cores))} "
            "asks for nodes of its own, which would be two answers to one question; use strategy.prevent=false"
        )
    for job in jobs:
        one = InSet(
            job=job.checked,
            policy=policy,
            prevention=prevention,
            asks=asks,
            grows=bool(start_cores),
            servers_on=getattr(placement, "servers_on", "any"),
        )
        check_combinations(IN_SET, one)
    if (away_s := config.replay.brain_away_s) is not None and away_s[0] >= away_s[1]:
        raise ConfigError(f"replay.brain_away_s={show(list(away_s))}: must be [from, until] with from before until")
    needs = Needs()
    for job in jobs:
        needs = needs.with_those_of(job.checked.needs)
    checked = CheckedSet(
        written=written,
        config=config,
        jobs=tuple(jobs),
        hosts=hosts,
        machines=machines,
        policy=policy,
        placement=placement,
        start_cores=start_cores,
        needs=needs,
        real_time=real_time,
        prevention=prevention if asks else None,
    )
    if real_time:
        from runtime.run.jobs.as_processes import shared_mechanisms

        shared_mechanisms(checked)
    return checked


def _start_cores(
    source: str, jobs: Sequence[SetJob], empty: Room, policy: Policy, placement: Placement
) -> Mapping[str, StartCores]:
    """The first cores of each job that asks for nodes; raises :class:`ConfigError` for a job that could never start."""
    start = {
        job.request.job: {role: job.checked.strategy.start_cores.get(role, 0.0) for role in ("worker", "server")}
        for job in jobs
        if asks_for_nodes(job.checked)
    }
    placing = WithinCores(placement, start, Grants(empty.machines))
    for request in (job.request for job in jobs):
        if problem := problem_of(request, empty, policy, placement):
            raise ConfigError(f"jobs={source}: {problem}")
        if placing.place(request, empty) is None:
            cores = start[request.job]
            raise ConfigError(
                f"jobs={source}: job {request.job}: {request.gpus} workers of {cores['worker']:g} cores and "
                f"{request.servers} servers of {cores['server']:g} do not fit on the empty cluster; use larger "
                "hosts or fewer strategy.worker_cores"
            )
    return start


@contextmanager
def _name(job: str) -> Iterator[None]:
    """Name the job in an error."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{job}: {error}") from None


def _machine(host: Host) -> Machine:
    return Machine(
        number=host.number, gpus=host.gpus or 0, cpu_cores=host.cores, link_bytes_per_s=host.link_bytes_per_s
    )


def _refuse_size(submission: Submission, empty: Room) -> None:
    if submission.gpus < 1:
        raise ConfigError(f"gpus={submission.gpus}: must be 1 or more")
    if submission.gpus > empty.total_gpus:
        raise ConfigError(f"gpus={submission.gpus}: the cluster has {empty.total_gpus} GPUs; use more or larger hosts")


Kind = tuple[tuple[str, ...], int, int | None, str]
"""Settings, workers, servers and model of a submission: where these are the same, jobs differ in seed and length."""


class _Alike(msgspec.Struct, frozen=True):
    """The common properties of jobs of one kind."""

    raw: Raw
    """Their configuration, without seed and length."""
    config: Config
    computes: bool
    samples: int | None
    """Training samples of the task; None: they are not known before it is read."""
    num_parameters: int
    alone: Undisturbed
    default: int | None
    """Iterations where the source does not mention the length; None: nobody says it."""


class _Shaper:
    """Makes checked jobs of submissions; their common parts are composed, read and measured once.

    Where nothing trains, jobs of one kind have one checked job, so that sets of many thousands are checked in seconds.
    """

    def __init__(
        self, raw: Mapping[str, Any], config: Config, start: Path, again: Again, hosts: Hosts, *, foreign: bool
    ) -> None:
        self._config, self._start, self._again, self._foreign = config, start, again, foreign
        self._raws: dict[tuple[str, ...], Mapping[str, Any]] = {(): raw}
        self._models = Models(config.replay.models, start)
        self._costs: dict[tuple[object, ...], CostModel] = {}
        self._kinds: dict[Kind, _Alike] = {}
        self._counted: dict[Kind, CheckedJob] = {}
        self._host = next(host for host in hosts.hosts if host.gpus)

    def shape(self, number: int, submission: Submission) -> SetJob:
        """Check one job; raises :class:`ConfigError`."""
        replay, kind = self._config.replay, _kind_of(submission)
        if kind not in self._kinds:
            self._kinds[kind] = self._look_at(submission)
        alike = self._kinds[kind]
        refuse_replaced(submission, None if replay.stand_in else self._models.find(submission.model))
        raw, alone, config = {**alike.raw, "seed": seed_of(self._config.seed, number)}, alike.alone, alike.config
        iterations = iterations_of(submission, alone, replay, alike.default)
        if not alike.computes:
            raw = with_length(raw, iterations, alike.num_parameters, alone, replay)
        elif alike.samples is not None:
            raw = with_epochs(raw, iterations, alike.samples, alone, replay)
            iterations = raw["workload"]["epochs"] * alike.samples // config.workload.global_batch_samples
        if replay.detail == "gpus_only":
            if kind not in self._counted:
                self._counted[kind] = self._check(raw, alike)
            checked = self._counted[kind]
        else:
            checked = self._check(raw, alike)
        request = JobRequest(
            job=submission.job,
            submit_s=submission.submit_s,
            gpus=submission.gpus,
            servers=config.topology.num_servers,
            duration_s=duration_s_of(submission, iterations, alone, replay),
            user=submission.user,
            model=submission.model,
            worker=_estimate(alone.worker, submission.worker_cpu_cores, submission.worker_bytes_per_s),
            server=_estimate(alone.server, submission.server_cpu_cores, submission.server_bytes_per_s),
        )
        return SetJob(submission=submission, request=request, iterations=iterations, checked=checked)

    def _look_at(self, submission: Submission) -> _Alike:
        """Check the common properties of jobs like this one; raises :class:`ConfigError`."""
        stand_in, model = self._config.replay.stand_in, self._models.find(submission.model)
        composed = self._compose(submission)
        raw = sized(composed, submission, model, stand_in=stand_in)
        job = facts_of(anchored(parse(raw), self._start))
        config, backend, task = job.config, job.backend, job.task
        name = composed["workload"]["name"]  # `job` has the model's name
        modelled = Modelled(job=job, submission=submission, model=model, workload=name, stand_in=stand_in)
        check_combinations(MODELS, modelled)
        check_combinations([END], job)  # before its rule and its target are left out, as none can be reached
        samples = getattr(task, "num_samples", None)
        batch, epochs = config.workload.global_batch_samples, config.workload.epochs
        default = None if samples is None or epochs is None else max(1, round(epochs * samples / batch))
        if backend.computes and model is None:
            num_parameters = int(getattr(task, "num_weights", 0) or getattr(task, "num_parameters", 0) or 0)
        else:
            num_parameters = model.num_parameters if model is not None else backend.parameters_of(task)
        return _Alike(
            raw=raw,
            config=config,
            computes=backend.computes,
            samples=samples,
            num_parameters=num_parameters,
            alone=self._alone(config, num_parameters, model),
            default=default,
        )

    def _check(self, raw: Raw, alike: _Alike) -> CheckedJob:
        """Check one job, whose seed and length are in ``raw``; raises :class:`ConfigError`."""
        checked = check_job(parse(raw), self._start)
        check_combinations(PLACES, checked)
        return checked

    def _compose(self, submission: Submission) -> Mapping[str, Any]:
        if submission.settings not in self._raws:
            refuse_shared(submission)
            for line in submission.settings if self._foreign else ():
                with _name("settings"):
                    refuse_foreign(line, self._start)
            self._raws[submission.settings] = self._again(submission.settings)
        return self._raws[submission.settings]

    def _alone(self, config: Config, num_parameters: int, model: Model | None) -> Undisturbed:
        """An iteration of the job on the first machine with GPUs."""
        cluster = config.cluster
        changes = cluster.cost_changes or {}
        key = cluster.costs, *sorted(changes.items())
        if key not in self._costs:
            self._costs[key] = load_costs(cluster.costs, changes=changes)
        batch, workers = config.workload.global_batch_samples, config.num_workers
        try:
            device: DeviceProfile | None = self._host.device or parse_device(cluster.device)
        except ValueError as error:
            raise ConfigError(f"cluster.{error}") from None
        alone = undisturbed(
            self._costs[key].values,
            device,
            self._host,
            num_workers=workers,
            num_servers=config.topology.num_servers,
            num_parameters=num_parameters,
            batch_samples=-(-batch // workers) if model is None else model.batch_samples,
        )
        if not alone.iteration_s > 0:
            raise ConfigError(
                f"cluster.costs={cluster.costs}: an iteration would take no time; give a device or other costs"
            )
        return alone


def _kind_of(submission: Submission) -> Kind:
    return submission.settings, submission.gpus, submission.servers, submission.model


def _estimate(demand: TaskDemand, cpu_cores: float | None, link_bytes_per_s: float | None) -> TaskDemand:
    """Give placements the use of a task that the source states."""
    return msgspec.structs.replace(
        demand,
        cpu_cores=demand.cpu_cores if cpu_cores is None else cpu_cores,
        link_bytes_per_s=demand.link_bytes_per_s if link_bytes_per_s is None else link_bytes_per_s,
    )
