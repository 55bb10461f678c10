"""The names of strategies in figures: the papers' names instead of the configuration files'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from analysis.about import ABOUT

NAMES = {"ddp": "DDP"} | {name: one.name for name, one in ABOUT.items()}
"""Name for people of each choice in ``conf/strategy``."""
GROUPS = {
    *("backend", "cluster", "jobs", "launcher", "placement", "policy", "prevention"),
    *("runtime", "scheduler", "straggler", "strategy", "topology", "workload"),
}
"""Settings that choose a file of ``conf/``: its name alone is clear."""
NO_NAMES: Mapping[str, str] = {}
_given: ContextVar[Mapping[str, str]] = ContextVar("names", default=NO_NAMES)


@contextmanager
def use_names(names: Mapping[str, str]) -> Iterator[None]:
    """Figures and pages prefer the user's ``names`` of strategies to the strategies' own."""
    token = _given.set(names)
    try:
        yield
    finally:
        _given.reset(token)


def shown_title(axis: str, level: str, names: Mapping[str, str] = NO_NAMES) -> str:
    """The title of a panel: the level's name if it has one, else ``axis = level``."""
    return names.get(level) or NAMES.get(level, f"{axis} = {level}")


def shown_name(label: str, names: Mapping[str, str] = NO_NAMES) -> str:
    """``ssp bound=3`` is shown as ``SSP (bound=3)``; ``names`` come first, others stay as they are."""
    known = {**NAMES, **_given.get(), **names}
    if label in known:
        return known[label]
    name, _, settings = label.partition(" ")
    text = known.get(name, name)
    return f"{text} ({settings})" if settings else text


def id_of(setting: str, value: str) -> str:
    """Return the key of this value in ``names``: a choice by its name, all else as ``setting=value``."""
    return value if setting in GROUPS else f"{setting}={value}"


def shown_case(case: str, names: Mapping[str, str] = NO_NAMES) -> str:
    """``straggler=rack, lr=0.1`` with names where there are any (:func:`id_of`)."""
    known = {**_given.get(), **names}
    parts = (part.partition("=") for part in case.split(", "))
    return ", ".join(known.get(id_of(key, value), f"{key}{sign}{value}") for key, sign, value in parts)
