"""The straggler plan: every disturbance of a run, fixed and written down before the run starts (pure).

A plan depends on the pattern's fields, the cluster's shape, the horizon and the seed, and on nothing that a strategy
does; so runs that are compared face the identical one. ``docs/record.md`` describes its file, ``plan.json``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Literal

import msgspec

SCHEMA = 1

MAX_MAGNITUDE = {"delay": 3600.0, "slowdown": 1000.0}
"""Seconds per iteration, and fraction of the iteration: more than that is a slip of the keyboard."""

DECIMALS = 6
"""Times are planned to the microsecond: finer than any sleep, and a plan stays readable."""

Kind = Literal["delay", "slowdown"]


class ClusterShape(msgspec.Struct, frozen=True, kw_only=True):
    """What a pattern may know of a cluster."""

    num_workers: int
    num_servers: int
    base_iter_s: float | None = None
    """Nominal time of an undisturbed iteration in seconds; None when nothing says it beforehand."""

    def targets(self, role: str) -> list[str]:
        """All targets of a role (``worker`` or ``server``), by id."""
        count = {"worker": self.num_workers, "server": self.num_servers}[role]
        return [f"{role}:{number}" for number in range(count)]

    def describe_targets(self) -> str:
        """For error messages: ``worker:0 to worker:3, server:0``."""
        ends = ((names[0], names[-1]) for role in ("worker", "server") if (names := self.targets(role)))
        return ", ".join(first if first == last else f"{first} to {last}" for first, last in ends)


class Disturbance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``target`` (``worker:1``, ``server:0``) is disturbed during [start_s, end_s), seconds since the job's start.

    ``delay``: ``magnitude`` seconds are added to every iteration of a worker, or to every update of a server.
    ``slowdown``: ``magnitude`` times the iteration's (update's) own computing time is added to it.
    """

    start_s: float
    end_s: float
    target: str
    kind: Kind
    magnitude: float


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All disturbances of a run, sorted by (start_s, target, end_s); :func:`build_plan` makes one."""

    pattern: str
    seed: int
    horizon_s: float
    disturbances: tuple[Disturbance, ...]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``plan.json``."""

    schema: Literal[1]
    pattern: str
    seed: int
    horizon_s: float
    disturbances: tuple[Disturbance, ...]


def build_plan(pattern: str, seed: int, horizon_s: float, disturbances: Iterable[Disturbance]) -> Plan:
    """A plan of what ``disturbances`` do within the horizon: clipped to it, rounded, sorted, without empty ones.

    Raises ``ValueError`` for a horizon that is not a positive number.
    """
    if not 0 < horizon_s < math.inf:
        raise ValueError(f"horizon_s={horizon_s}: must be a positive number of seconds")
    clipped = (_clip(disturbance, horizon_s) for disturbance in disturbances)
    kept = [one for one in clipped if one.start_s < one.end_s and one.magnitude != 0]
    return Plan(pattern=pattern, seed=seed, horizon_s=float(horizon_s), disturbances=tuple(sorted(kept, key=_order)))


def _clip(one: Disturbance, horizon_s: float) -> Disturbance:
    return Disturbance(
        start_s=round(float(one.start_s), DECIMALS),
        end_s=round(float(min(one.end_s, horizon_s)), DECIMALS),
        target=one.target,
        kind=one.kind,
        magnitude=round(float(one.magnitude), DECIMALS),
    )


def _order(one: Disturbance) -> tuple[float, str, float, str, float]:
    return one.start_s, one.target, one.end_s, one.kind, one.magnitude


def plan_json(plan: Plan) -> bytes:
    """The canonical text of a plan: equal plans give equal bytes. Raises ``ValueError`` for what it cannot express."""
    numbers = [(one.start_s, one.end_s, one.magnitude) for one in plan.disturbances]
    if not all(math.isfinite(number) for row in numbers for number in row):
        raise ValueError("the plan has a disturbance with a number that is not finite")
    # the conversion turns integers given for floats into floats, which would otherwise be written differently
    rows = msgspec.to_builtins(plan)
    return msgspec.json.encode(msgspec.convert({"schema": SCHEMA, **rows}, _File)) + b"\n"


def parse_plan(data: bytes) -> Plan:
    """The plan in the text of a ``plan.json``; raises ``ValueError`` saying what is wrong with it."""
    try:
        file = msgspec.json.decode(data, type=_File)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a straggler plan of schema {SCHEMA}: {error}") from None
    return Plan(pattern=file.pattern, seed=file.seed, horizon_s=file.horizon_s, disturbances=file.disturbances)


def plan_sha256(plan: Plan) -> str:
    """Hex digest of the canonical text: two runs faced the same disturbances if and only if it is the same."""
    return hashlib.sha256(plan_json(plan)).hexdigest()


def validate_plan(plan: Plan, cluster: ClusterShape) -> None:
    """Raise ``ValueError`` with one line about the first disturbance that cannot be carried out on ``cluster``."""
    known = {*cluster.targets("worker"), *cluster.targets("server")}
    for index, one in enumerate(plan.disturbances):
        if problem := _problem(one, known, cluster):
            raise ValueError(f"disturbance {index} of the plan ({one.kind} of {one.target}): {problem}")
    if list(plan.disturbances) != sorted(plan.disturbances, key=_order):
        raise ValueError("the plan's disturbances are not sorted by (start_s, target, end_s)")


def _problem(one: Disturbance, known: set[str], cluster: ClusterShape) -> str | None:
    if one.target not in known:
        return f"there is no such target; valid are {cluster.describe_targets()}"
    if one.kind not in MAX_MAGNITUDE:
        return f"kind must be one of {', '.join(MAX_MAGNITUDE)}"
    if not 0 <= one.start_s < math.inf:
        return f"start_s={one.start_s} must be 0 or more"
    if not one.start_s < one.end_s < math.inf:
        return f"end_s={one.end_s} must be later than start_s={one.start_s}"
    if not 0 <= one.magnitude <= MAX_MAGNITUDE[one.kind]:
        return f"magnitude={one.magnitude} must be between 0 and {MAX_MAGNITUDE[one.kind]:g}"
    return None
