"""The straggler plan: every disturbance of a run, fixed and written down before the run starts (pure).

A plan depends on the pattern's fields, the cluster's shape, the horizon and the seed, and on nothing that a strategy
does, so compared runs face the identical plan. ``docs/record.md`` describes its file, ``plan.json``.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Literal, NamedTuple

import msgspec

from reading import Unreadable
from reading.plain import parse_json

SCHEMA = 1

DECIMALS = 6
"""Times are rounded to the microsecond: finer than any sleep, and a plan stays readable."""

NO_HOSTS = "this cluster has no hosts; choose cluster=hosts, or set cluster.hosts"

NO_RANKS = (
    "here workers have no ranks; choose cluster=hybrid runtime=virtual topology=allreduce, or name a worker instead"
)

NO_DEVICES = "no device is shared out here; set backend.device=cuda (or fake), or name a worker"

Kind = Literal["delay", "slowdown", "cpu", "gpu", "bandwidth", "cut", "pause", "kill", "join", "leave"]
Form = Literal["worker", "server", "host", "device", "link", "route", "rank", "stages"]


class Rule(NamedTuple):
    """Targets of a kind of disturbance, its possible magnitudes, and how its overlapping windows compose."""

    forms: tuple[Form, ...]
    composition: Literal["sum", "least", "union"]
    """How overlapping windows compose. ``sum``: magnitudes add up, each from 0 to ``most``. ``least``: the smallest
    holds, each a fraction between 0 and 1. ``union``: in force while any is open; the magnitude is 1."""
    most: float = 1.0

    @property
    def neutral(self) -> float:
        """The level without any open window."""
        return 1.0 if self.composition == "least" else 0.0


RULES: dict[Kind, Rule] = {
    # more than an hour per iteration, or a thousand iterations, is assumed to be a typo
    "delay": Rule(("worker", "server", "rank", "stages"), "sum", 3600.0),
    "slowdown": Rule(("worker", "server", "rank"), "sum", 1000.0),
    "cpu": Rule(("worker", "server", "host"), "least"),
    "gpu": Rule(("worker", "host", "device"), "least"),
    "bandwidth": Rule(("link", "route"), "least"),
    "cut": Rule(("link",), "union"),
    "pause": Rule(("worker", "server", "host"), "union"),
    "kill": Rule(("worker", "server", "host"), "union"),
    "join": Rule(("worker",), "union"),
    "leave": Rule(("worker",), "union"),
}
"""Windows on different targets compose physically and not here: a worker's quota lies inside its host's."""

OF_MEMBERS: frozenset[Kind] = frozenset({"join", "leave"})
"""Kinds by which an operator changes the workers of a job; only the start of such a window counts."""

OF_MACHINE: frozenset[Kind] = frozenset({"delay", "slowdown", "cpu", "gpu", "pause"})
"""Kinds that may be ``of_machine`` if they act on a task or on a worker's rank."""

ON_MACHINES: tuple[Form, ...] = ("worker", "server", "rank")
"""Targets that a strategy may move to another machine."""

FORM_TEXT: dict[Form, str] = {
    "worker": "worker:<id>",
    "server": "server:<id>",
    "host": "host:<id>",
    "device": "device:<id>",
    "link": "link:<host>",
    "route": "link:<host>><host>",
    "rank": "rank:(<worker>,<stage>,<tensor>)",
    "stages": "link:<worker>:(<stage>,<stage>)",
}

_ID = "(0|[1-9][0-9]{0,8})"
_TARGET = re.compile(f"(worker|server|host|device|link):{_ID}(?:>{_ID})?")
_INSIDE = re.compile(f"rank:\\({_ID},{_ID},{_ID}\\)|link:{_ID}:\\({_ID},{_ID}\\)")
"""A rank, or two stages of a worker."""


class Target(NamedTuple):
    """``worker:1``, ``server:0``, ``host:2``, ``device:0``, ``link:2`` (of host 2, both directions), ``link:0>2``.

    Inside worker 2, which is a replica: ``rank:(2,1,0)``, which is tensor rank 0 of stage 1, and ``link:2:(1,2)``, the
    link between stages 1 and 2 (both directions).
    """

    form: Form
    ids: tuple[int, ...]
    """One number; two for a route; three for a rank and for two stages, of which the first is the worker's."""

    @property
    def number(self) -> int:
        """Return the number of a task, host, device or link; of a route, its sending host's; else the worker's."""
        return self.ids[0]

    @property
    def is_inside(self) -> bool:
        """Whether it is a part of a worker."""
        return self.form in ("rank", "stages")


@lru_cache(maxsize=4096)
def parse_target(text: str) -> Target | None:
    """The target that ``text`` names; None if it is not written exactly as above."""
    if (inside := _INSIDE.fullmatch(text)) is not None:
        return Target("rank" if inside[1] else "stages", tuple(int(one) for one in inside.groups() if one))
    found = _TARGET.fullmatch(text)
    if found is None or (found[3] is not None and found[1] != "link"):
        return None
    if found[3] is not None:
        return Target("route", (int(found[2]), int(found[3])))
    form: Form = found[1]  # type: ignore[assignment]  # one of the five of the expression
    return Target(form, (int(found[2]),))


def target_name(form: str, number: int) -> str:
    """The text of a target with one number, such as a worker that joins later."""
    return f"{form}:{number}"


def rank_name(worker: int, stage: int, tensor: int) -> str:
    """The text of a rank as a target."""
    return f"rank:({worker},{stage},{tensor})"


def stages_name(worker: int, stage: int, other: int) -> str:
    """The text of the link between two stages of a worker, as a target."""
    return f"link:{worker}:({min(stage, other)},{max(stage, other)})"


def target_of(text: str) -> Target:
    """The target that a checked plan names; raises ``ValueError`` for anything else."""
    if (target := parse_target(text)) is None:
        raise ValueError(f"{text!r}: is no target of a plan")
    return target


def task_of(text: str) -> str:
    """The target itself, or the worker of which a rank or a link between stages is a part."""
    target = target_of(text)
    return target_name("worker", target.number) if target.is_inside else text


def every_target(text: str) -> Form | None:
    """Return the form of ``worker:*``, which stands for all targets of the form; None for anything else."""
    if text == "rank:*":
        return "rank"
    target = parse_target(f"{text[:-1]}0") if text.endswith(":*") else None
    return None if target is None or target.form == "route" else target.form


class ReplicaShape(NamedTuple):
    """The inside of every worker that is a replica."""

    stages: int
    tensor: int
    """Ranks of each stage."""
    is_ring: bool
    """Whether the last stage has a link to the first one, too."""

    def link_problem(self, worker: int, stage: int, other: int) -> str | None:
        """Why a worker has no link of this name between two of its stages; None if it has one."""
        apart = abs(other - stage)
        if apart != 1 and not (self.is_ring and apart == self.stages - 1 > 1):
            return f"stages {stage} and {other} are not neighbours, so nothing passes between them; name two that are"
        return f"write {stages_name(worker, stage, other)}, the lower stage first" if stage > other else None


class ClusterShape(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a cluster that a pattern may know."""

    num_workers: int
    num_servers: int
    base_iter_s: float | None = None
    """Nominal time of an undisturbed iteration in seconds; None if it is not known in advance."""
    num_hosts: int = 0
    """Number of emulated hosts, each with a link; 0 if the cluster has none."""
    num_machines: int = 0
    """Number of machines elsewhere, each with a link, instead of hosts."""
    no_hosts: str = NO_HOSTS
    """Why there are none, for error messages."""
    num_devices: int = 0
    """Number of GPUs, of which workers use one each; 0 if they compute on the CPU, or nothing is known of any."""
    replica: ReplicaShape | None = None
    """The inside of every worker; None: they have none."""

    def count(self, role: str) -> int:
        """Number of targets of a role (``worker``, ``server``, ``host``, ``device``, ``link``)."""
        counts = {"worker": self.num_workers, "server": self.num_servers, "device": self.num_devices}
        hosts = {"host": self.num_hosts, "link": self.num_hosts or self.num_machines}
        return hosts[role] if role in hosts else counts[role]

    def targets(self, role: str) -> list[str]:
        """All targets of a role, by id; ``rank``: all ranks. Routes and links of stages are not listed."""
        if role == "rank":
            stages, tensor, _ = self.replica or (0, 0, False)
            numbers = itertools.product(range(self.num_workers), range(stages), range(tensor))
            return [rank_name(*one) for one in numbers]
        return [target_name(role, number) for number in range(self.count(role))]

    def describe_targets(self) -> str:
        """For error messages: ``worker:0 to worker:3, server:0``."""
        roles = ("worker", "server", "host", "device", "link")
        ends = [(names[0], names[-1]) for role in roles if (names := self.targets(role))]
        if self.replica is not None:
            worker, stage = self.num_workers - 1, self.replica.stages - 1
            ends.append((rank_name(0, 0, 0), rank_name(worker, stage, self.replica.tensor - 1)))
            ends += [(stages_name(0, 0, 1), stages_name(worker, stage - 1, stage))] if stage else []
        words = [first if first == last else f"{first} to {last}" for first, last in ends]
        return ", ".join([*words, FORM_TEXT["route"]] if self.count("link") > 1 else words)


class Disturbance(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """``target`` is disturbed during [start_s, end_s), seconds since the job's start.

    ``delay``: ``magnitude`` seconds are added to every iteration of a worker, or to every update of a server; a rank
    spends them after its passes; a link between stages adds them to every message.
    ``slowdown``: ``magnitude`` times the iteration's (update's) own computing time is added to it; to a rank's passes,
    likewise.
    ``cpu``: the fraction ``magnitude`` of the target's own processor allotment remains.
    ``gpu``: the fraction ``magnitude`` of the time of the target's device remains for the tasks that compute there.
    ``bandwidth``: the fraction ``magnitude`` of the rate of a link, or of a route from one host to another, remains.
    ``cut``: nothing passes a host's link.
    ``pause``: the target's processes are stopped.
    ``kill``: they are killed (SIGKILL) at ``start_s``, and the next incarnation is scheduled at ``end_s``.
    ``join``: an operator lets another worker join at ``start_s``. The target's number assumes that no other source lets
    workers join.
    ``leave``: an operator takes a worker away at ``start_s``, for good; one that is not there any more cannot leave.

    :data:`RULES` defines the targets of a kind and how overlapping windows compose. Adjacent windows count as one: a
    second ``kill`` that begins in or at the end of another finds nothing to kill and postpones the scheduling.

    ``of_machine``: the slow thing is the machine that the task was started on, not the task. A task that a strategy
    restarts elsewhere (KILL_RESTART) leaves the disturbance behind; a task that crashes returns to it.

    ``of_loader``: during the seconds of a delay, the worker waits for a batch that its loader does not have ready.
    """

    start_s: float
    end_s: float
    target: str
    kind: Kind
    magnitude: float
    of_machine: bool = False
    of_loader: bool = False


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All disturbances of a run, sorted by (start_s, target, end_s); made by :func:`build_plan`."""

    pattern: str
    seed: int
    horizon_s: float
    disturbances: tuple[Disturbance, ...]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Layout of the file ``plan.json``."""

    schema: Literal[1]
    pattern: str
    seed: int
    horizon_s: float
    disturbances: tuple[Disturbance, ...]


def build_plan(pattern: str, seed: int, horizon_s: float, disturbances: Iterable[Disturbance]) -> Plan:
    """Build a plan from ``disturbances``: clipped to the horizon, rounded, sorted, without empty ones.

    Empty means a window without length, or a delay or slowdown of 0. Any other magnitude of 0 is a mistake and is left
    for :func:`validate_plan` to refuse.

    Raises ``ValueError`` for a horizon that is not a positive number.
    """
    if not 0 < horizon_s < math.inf:
        raise ValueError(f"horizon_s={horizon_s}: must be a positive number of seconds")
    clipped = (_clip(disturbance, horizon_s) for disturbance in disturbances)
    kept = [one for one in clipped if one.start_s < one.end_s and not _is_nothing(one)]
    return Plan(pattern=pattern, seed=seed, horizon_s=float(horizon_s), disturbances=tuple(sorted(kept, key=_order)))


def _is_nothing(one: Disturbance) -> bool:
    return one.magnitude == 0 and one.kind in ("delay", "slowdown")


def _clip(one: Disturbance, horizon_s: float) -> Disturbance:
    return Disturbance(
        start_s=round(float(one.start_s), DECIMALS),
        end_s=round(float(min(one.end_s, horizon_s)), DECIMALS),
        target=one.target,
        kind=one.kind,
        magnitude=round(float(one.magnitude), DECIMALS),
        of_machine=one.of_machine,
        of_loader=one.of_loader,
    )


_order = attrgetter("start_s", "target", "end_s", "kind", "magnitude", "of_machine", "of_loader")


def plan_json(plan: Plan) -> bytes:
    """The canonical text of a plan: equal plans give equal bytes. Raises ``ValueError`` for non-finite numbers."""
    numbers = [(one.start_s, one.end_s, one.magnitude) for one in plan.disturbances]
    if not all(math.isfinite(number) for row in numbers for number in row):
        raise ValueError("the plan has a disturbance with a number that is not finite")
    # converting turns integers given for floats into floats, which would otherwise be written differently
    rows = msgspec.to_builtins(plan)
    return msgspec.json.encode(msgspec.convert({"schema": SCHEMA, **rows}, _File)) + b"\n"


def parse_plan(data: bytes) -> Plan:
    """Parse the text of a ``plan.json``; raises ``ValueError`` saying what is wrong with it."""
    try:
        file = parse_json(data, _File)
    except Unreadable as error:
        raise ValueError(f"not a straggler plan of schema {SCHEMA}: {error}") from None
    return Plan(pattern=file.pattern, seed=file.seed, horizon_s=file.horizon_s, disturbances=file.disturbances)


def plan_sha256(plan: Plan) -> str:
    """Hex digest of the canonical text: equal if and only if two runs faced the same disturbances."""
    return hashlib.sha256(plan_json(plan)).hexdigest()


class Problem(NamedTuple):
    """A mistake in a disturbance: the field, and what it must be."""

    field: str
    text: str


def validate_plan(plan: Plan, cluster: ClusterShape) -> None:
    """Raise a one-line ``ValueError`` about the first disturbance that is impossible on ``cluster``."""
    possible: set[tuple[str, Kind, bool, bool]] = set()
    for index, one in enumerate(plan.disturbances):
        about = one.target, one.kind, one.of_machine, one.of_loader
        if about in possible and not _problem_of_numbers(one):
            continue
        possible.add(about)
        if problem := problem_of(one, cluster):
            field, text = problem
            named = text if field == "target" else f"{field}={getattr(one, field)} {text}"
            which = f"{one.kind} of {one.target} from {one.start_s:g} s, disturbance {index} of pattern {plan.pattern}"
            raise ValueError(f"plans what cannot be ({which}): {named}")
    if list(plan.disturbances) != sorted(plan.disturbances, key=_order):
        raise ValueError("the plan's disturbances are not sorted by (start_s, target, end_s)")


def problem_of(one: Disturbance, cluster: ClusterShape) -> Problem | None:
    """Why ``one`` is impossible on ``cluster``; None if it is possible."""
    if one.kind not in RULES:
        return Problem("kind", f"must be one of {', '.join(RULES)}")
    target = parse_target(one.target)
    if target is not None and target.form not in RULES[one.kind].forms:
        return Problem("target", f"{one.kind} acts on {describe_forms(one.kind)} only")
    if text := member_problem(one, cluster) if one.kind in OF_MEMBERS else target_problem(one.target, cluster):
        return Problem("target", text)
    if one.of_machine and (one.kind not in OF_MACHINE or target is None or target.form not in ON_MACHINES):
        return Problem("of_machine", f"is for {', '.join(sorted(OF_MACHINE))} of a worker, server or rank")
    if one.of_loader and (one.kind != "delay" or target is None or target.form != "worker"):
        return Problem("of_loader", "is for delay of a worker")
    return _problem_of_numbers(one)


def _problem_of_numbers(one: Disturbance) -> Problem | None:
    if not 0 <= one.start_s < math.inf:
        return Problem("start_s", "must be 0 or more")
    if not one.start_s < one.end_s < math.inf:
        return Problem("end_s", f"must be later than start_s={one.start_s}")
    text = magnitude_problem(one.kind, one.magnitude)
    return Problem("magnitude", text) if text else None


def member_problem(one: Disturbance, cluster: ClusterShape) -> str | None:
    """Why no such worker can join or leave; a worker that joined may leave, too."""
    target = parse_target(one.target)
    if target is None:
        return f"{one.kind} acts on {describe_forms(one.kind)} only"
    if one.kind == "join" and target.number < cluster.num_workers:
        return f"is there at the start; the next worker is {target_name('worker', cluster.num_workers)}"
    return None


def target_problem(text: str, cluster: ClusterShape) -> str | None:
    """Why ``cluster`` has no target of that name; None if it has one."""
    target = parse_target(text)
    if target is not None and target.is_inside:
        return _problem_inside(target, cluster)
    counted = "" if target is None else "link" if target.form == "route" else target.form
    if counted in ("host", "link") and not cluster.count(counted):
        return cluster.no_hosts
    if target is not None and target.form == "device" and not cluster.num_devices:
        return NO_DEVICES
    if target is None or max(target.ids) >= cluster.count(counted):
        return f"there is no such target; valid are {cluster.describe_targets()}"
    if len(set(target.ids)) < len(target.ids):
        return "leads from a host to itself; name two hosts that differ"
    return None


def _problem_inside(target: Target, cluster: ClusterShape) -> str | None:
    """Why no worker has such a rank or link."""
    if (replica := cluster.replica) is None:
        return NO_RANKS
    worker, stage, other = target.ids
    if worker < cluster.num_workers and stage < replica.stages:
        if target.form == "rank" and other < replica.tensor:
            return None
        if target.form == "stages" and other < replica.stages:
            return replica.link_problem(*target.ids)
    return f"there is no such target; valid are {cluster.describe_targets()}"


def describe_forms(kind: Kind) -> str:
    """The targets that a kind acts on, for error messages: ``worker:<id>, server:<id>``."""
    return ", ".join(FORM_TEXT[form] for form in RULES[kind].forms)


def magnitude_problem(kind: Kind, magnitude: float) -> str | None:
    """Say what a magnitude must be, if it is invalid (after rounding as in a plan)."""
    rule, rounded = RULES[kind], round(magnitude, DECIMALS)
    match rule.composition:
        case "sum":
            return None if 0 <= rounded <= rule.most else f"must be between 0 and {rule.most:g}"
        case "least":
            return None if 0 < rounded < 1 else "must be more than 0 and less than 1 (the fraction that is left)"
        case "union":
            return None if rounded == 1 else "must be 1"
