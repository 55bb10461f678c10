"""Checks that the patterns' fields share, and what several of them mean. All raise ``ValueError``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from injectors.plan import ClusterShape

MAX_SLOTS = 20_000_000
"""Random draws of one pattern, for all its targets."""
MAX_WINDOWS = 1_000_000
"""Expected disturbances of one pattern; about 100 bytes of ``plan.json`` each."""


def check_number(
    name: str, value: object, *, least: float | None = None, above: float | None = None, most: float | None = None
) -> None:
    """A finite number in a range: at least ``least`` or more than ``above``, and at most ``most``."""
    bounds = [(least, "at least", 1), (above, "more than", 0), (most, "at most", -1)]
    valid = " and ".join(f"{words} {bound:g}" for bound, words, _ in bounds if bound is not None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}={value}: must be a finite number, {valid}")
    inside = (least is None or value >= least) and (above is None or value > above) and (most is None or value <= most)
    if not inside:
        raise ValueError(f"{name}={value}: must be {valid}")


def check_name(name: object) -> None:
    """A pattern's name."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"name={name}: must be a text that is not empty")


def check_targets(targets: object) -> None:
    """Each is ``worker:<id>``, ``server:<id>``, or ``*`` for the id."""
    if isinstance(targets, str) or not isinstance(targets, Sequence) or not targets:
        raise ValueError(f"targets={targets}: must be a list of targets such as worker:1, server:0 or worker:*")
    for target in targets:
        role, _, number = str(target).partition(":")
        plain = number.isdecimal() and number.isascii() and str(int(number)) == number
        if role not in ("worker", "server") or not (number == "*" or plain):
            raise ValueError(f"targets={target}: must be worker:<id>, server:<id>, worker:* or server:*")


def expand_targets(targets: Sequence[str], cluster: ClusterShape) -> list[str]:
    """The targets meant, each once, in the order given; raises for one that the cluster does not have."""
    found: dict[str, None] = {}
    for target in targets:
        role, _, number = target.partition(":")
        members = cluster.targets(role)
        if number != "*" and target not in members:
            raise ValueError(f"targets={target}: there is no such target; valid are {cluster.describe_targets()}")
        found.update(dict.fromkeys(members if number == "*" else [target]))
    return list(found)


def check_sleep(sleep_s: float | None, sleep_iters: float | None, intensity: float) -> None:
    """A delay is given either in seconds or in base iterations, and scaled by an intensity between 0 and 1."""
    if sleep_s is not None and sleep_iters is not None:
        raise ValueError(f"sleep_s={sleep_s}: only one of sleep_s and sleep_iters may be set; make the other null")
    if sleep_s is None and sleep_iters is None:
        raise ValueError("sleep_s=null: one of sleep_s and sleep_iters must be set")
    for name, value in (("sleep_s", sleep_s), ("sleep_iters", sleep_iters)):
        if value is not None:
            check_number(name, value, least=0)
    check_number("intensity", intensity, least=0, most=1)


def delay_s(sleep_s: float | None, sleep_iters: float | None, intensity: float, cluster: ClusterShape) -> float:
    """Seconds of delay per iteration: SleepDuration x Intensity (AntDT section VII-A4)."""
    if sleep_s is not None:
        return sleep_s * intensity
    assert sleep_iters is not None
    if cluster.base_iter_s is None:
        raise ValueError(
            f"sleep_iters={sleep_iters}: the time of an iteration is not known beforehand on this cluster; "
            "set sleep_iters to null and sleep_s to seconds"
        )
    return sleep_iters * cluster.base_iter_s * intensity


def count_slots(name: str, slot_s: float, horizon_s: float, num_targets: int, probability: float) -> int:
    """Slots of ``slot_s`` seconds that begin within the horizon; an absurd number is refused, naming ``name``."""
    slots = horizon_s / slot_s
    if slots * num_targets > MAX_SLOTS or slots * num_targets * probability > MAX_WINDOWS:
        raise ValueError(
            f"{name}={slot_s}: too short for {horizon_s:g} s and {num_targets} targets, the plan would have "
            f"{slots * num_targets * probability:.3g} windows; use longer slots or a smaller max_time_s"
        )
    return math.ceil(slots)
