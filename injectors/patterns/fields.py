"""Shared checks of the patterns' fields, and the meaning of those that several have. All raise ``ValueError``."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from injectors.plan import (
    OF_MEMBERS,
    RULES,
    ClusterShape,
    Kind,
    describe_forms,
    every_target,
    magnitude_problem,
    parse_target,
    rank_name,
    target_problem,
)
from reading.errors import shown

DISTURBING = tuple(kind for kind in RULES if kind not in OF_MEMBERS)
"""Kinds of which a pattern can plan any."""

MAX_SLOTS = 20_000_000
"""Upper bound on the random draws of one pattern, over all its targets."""
MAX_WINDOWS = 1_000_000
"""Upper bound on the expected disturbances of one pattern; about 100 bytes of ``plan.json`` each."""


def check_number(
    name: str, value: object, *, least: float | None = None, above: float | None = None, most: float | None = None
) -> None:
    """A finite number in a range: at least ``least`` or more than ``above``, and at most ``most``."""
    bounds = [(least, "at least", 1), (above, "more than", 0), (most, "at most", -1)]
    valid = " and ".join(f"{words} {bound:g}" for bound, words, _ in bounds if bound is not None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}={value}: must be a finite number{', ' if valid else ''}{valid}")
    inside = (least is None or value >= least) and (above is None or value > above) and (most is None or value <= most)
    if not inside:
        raise ValueError(f"{name}={value}: must be {valid}")


def check_one_of(one: str, value: object, other: str, other_value: object) -> None:
    """Raise ``ValueError`` unless one of two fields is given, and the other is None."""
    if (value is None) == (other_value is None):
        raise ValueError(
            f"{one}={'null' if value is None else value}: exactly one of {one} and {other} must be set; make the other "
            "null"
        )


def check_count(name: str, value: object) -> None:
    """Raise ``ValueError`` unless it is a whole number, at least 1."""
    if type(value) is not int or value < 1:
        raise ValueError(f"{name}={one_line(value)}: must be a whole number, at least 1")


def check_flag(name: str, value: object) -> None:
    """Raise ``ValueError`` unless it is true or false."""
    if type(value) is not bool:
        raise ValueError(f"{name}={one_line(value)}: must be true or false")


def check_name(name: object, field: str = "name") -> None:
    """A pattern's name: nothing that a shell or a file system reads in a way of its own."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ValueError(
            f"{field}={one_line(name)}: must be letters, digits, '_', '-' and '.', a letter or digit first"
        )


def one_line(value: object) -> str:
    """Put a person's or a file's text on one line for an error message."""
    return shown(value, 200)


def check_targets(targets: object, kind: Kind = "delay", name: str = "targets") -> None:
    """Each is written as something that ``kind`` acts on, or with ``*`` for the id; whether it exists is seen later."""
    if isinstance(targets, str) or not isinstance(targets, Sequence) or not targets:
        raise ValueError(f"{name}={targets}: must be a list of targets such as worker:1, server:0 or worker:*")
    for text in targets:
        target = parse_target(str(text))
        form = every_target(str(text)) if target is None else target.form
        if form not in RULES[kind].forms:
            raise ValueError(
                f"{name}={one_line(text)}: must be {describe_forms(kind)}, or * for the id; {kind} acts on nothing else"
            )


def check_workers(targets: object) -> None:
    """Raise ``ValueError`` unless each is a worker or ``worker:*``."""
    check_targets(targets)
    assert isinstance(targets, Sequence)
    for text in targets:
        target = parse_target(str(text))
        if (every_target(str(text)) if target is None else target.form) != "worker":
            raise ValueError(f"targets={one_line(text)}: must be worker:<id> or worker:*")


def expand_targets(targets: Sequence[str], cluster: ClusterShape) -> list[str]:
    """The targets meant, each once, in the order given; raises for one that the cluster does not have."""
    found: dict[str, None] = {}
    for target in targets:
        form = every_target(target)
        first = target if form is None else rank_name(0, 0, 0) if form == "rank" else f"{form}:0"
        if form not in ("worker", "server") and (text := target_problem(first, cluster)):
            raise ValueError(f"targets={target}: {text}")
        found.update(dict.fromkeys([target] if form is None else cluster.targets(form)))
    return list(found)


def check_effect(kind: object, magnitude: float, *, kinds: Sequence[str] = DISTURBING, name: str = "magnitude") -> None:
    """A kind that the pattern can plan, and a magnitude that this kind can have, in the field ``name``."""
    if kind not in kinds:
        raise ValueError(f"kind={one_line(kind)}: must be one of {', '.join(kinds)}")
    check_number(name, magnitude)
    if text := magnitude_problem(kind, magnitude):  # type: ignore[arg-type]  # one of RULES
        raise ValueError(f"{name}={magnitude}: {text}")


def check_sleep(sleep_s: float | None, sleep_iters: float | None, intensity: float) -> None:
    """Check a delay given either in seconds or in base iterations, and its intensity between 0 and 1."""
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
        return _of_delay("sleep_s", sleep_s, sleep_s * intensity)
    assert sleep_iters is not None
    if cluster.base_iter_s is None:
        raise ValueError(
            f"sleep_iters={sleep_iters}: the time of an iteration is not known beforehand on this cluster; "
            "set sleep_iters to null and sleep_s to seconds"
        )
    return _of_delay("sleep_iters", sleep_iters, sleep_iters * cluster.base_iter_s * intensity)


def undisturbed_s(base_s: float | None, cluster: ClusterShape) -> float:
    """Seconds of an undisturbed iteration: the pattern's field ``base_s``, or the cluster's own where that is None."""
    if base_s is not None:
        return base_s
    if cluster.base_iter_s is None:
        raise ValueError(
            "base_s=null: the time of an iteration is not known beforehand on this cluster; set base_s to seconds"
        )
    return cluster.base_iter_s


def _of_delay(name: str, value: float, seconds: float) -> float:
    """``seconds``, unless the field ``name`` makes them longer than a delay can be."""
    if seconds > RULES["delay"].most:
        raise ValueError(
            f"{name}={value}: makes a delay of {seconds:g} s per iteration; it can be {RULES['delay'].most:g} s at most"
        )
    return seconds


def count_slots(name: str, slot_s: float, horizon_s: float, num_targets: int, probability: float) -> int:
    """Number of slots of ``slot_s`` seconds that begin within the horizon; refuses absurd numbers, naming ``name``."""
    slots = horizon_s / slot_s
    if slots * num_targets > MAX_SLOTS or slots * num_targets * probability > MAX_WINDOWS:
        raise ValueError(
            f"{name}={slot_s}: too short for {horizon_s:g} s and {num_targets} targets, the plan would have "
            f"{slots * num_targets * probability:.3g} windows; use longer slots or a smaller max_time_s"
        )
    return math.ceil(slots)


def check_expected(name: str, value: float, gap_s: float, horizon_s: float, num_targets: int) -> None:
    """Refuse one window every ``gap_s`` seconds per target if that is an absurd number, naming the field ``name``."""
    windows = horizon_s / gap_s * num_targets
    if windows > MAX_WINDOWS:
        raise ValueError(
            f"{name}={value}: too short for {horizon_s:g} s and {num_targets} targets, the plan would have "
            f"{windows:.3g} windows; use longer times or a smaller max_time_s"
        )
