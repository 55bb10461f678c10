"""The class that a configuration may name in each role: checked before its constructor is called."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from runtime.config.checking import join
from runtime.errors import ConfigError
from runtime.house import house_name


class Role(NamedTuple):
    """The part of a job that a section describes."""

    name: str
    """In words."""
    room: str
    """Where our own classes of this role are; a user's project may have them anywhere."""
    methods: tuple[str, ...]
    """Methods that every class of this role has."""


ROLES = {
    "strategy": Role("strategy", "strategies.", ("handle", "validate")),
    "straggler": Role("straggler pattern", "injectors.patterns.", ("plan",)),
    "workload.task": Role("task", "workloads.", ("prepare", "preload")),
    "runtime": Role("runtime", "runtime.", ("can", "check", "run")),
    "backend": Role("backend", "runtime.backends.", ("prepare", "preload")),
    "scheduler": Role("scheduler", "runtime.core.", ("place", "draw_s")),
    "jobs": Role("source of jobs", "injectors.arrivals.", ("submissions",)),
    "policy": Role("policy", "strategies.cluster.", ("changed", "decide")),
    "placement": Role("placement", "strategies.cluster.", ("place",)),
    "prevention": Role("prevention", "strategies.cluster.", ("answer",)),
    "launcher": Role("launcher", "runtime.live.launchers.", ("check", "site")),
}
"""Roles by the section of the configuration."""
WITHIN = {
    "strategies": ("strategies.", "predictors."),
    "predictors": ("predictors.",),
    "injectors": ("injectors.",),
    "workloads": ("workloads.",),
    "runtime": ("runtime.",),
    "analysis": ("analysis.",),
}
"""For each folder of an object, the folders that its parts may be from; a user's own class may have any of them."""


def refuse_room(target: str, path: str, owner: type | None) -> None:
    """Raise :class:`ConfigError` for a class of ours that is in a wrong folder, before its module is imported.

    ``path``: the section that names it; ``owner``: the class of which the object is to be a part, if any.
    """
    top = target.partition(".")[0]
    if top not in WITHIN:
        return
    where = f"{join(path, '_target_')}={target}"
    role = ROLES.get(path)
    if role is not None and not target.startswith(role.room):
        raise ConfigError(f"{where}: is not a {role.name}; those are below {role.room.rstrip('.')}")
    rooms = WITHIN.get("" if owner is None else house_name(owner.__module__).partition(".")[0])
    if rooms is not None and not target.startswith(rooms):
        raise ConfigError(f"{where}: cannot be a part of {path.rpartition('.')[0] or path}")


def refuse_role(cls: type, target: str, path: str, kind: Any) -> None:
    """Raise :class:`ConfigError` for a class that is not of the section's role, or not of the type ``kind``."""
    where = f"{join(path, '_target_')}={target}"
    role = ROLES.get(path)
    lacking = [] if role is None else [name for name in role.methods if not callable(getattr(cls, name, None))]
    if role is not None and lacking:
        raise ConfigError(f"{where}: is not a {role.name} (it has no {lacking[0]})")
    wanted = list(_classes(kind))
    if Any not in wanted and not any(_is_one(cls, one) for one in wanted):
        names = sorted({one.__name__ for one in wanted if one.__module__ != "builtins"})
        raise ConfigError(f"{where}: must be {' or '.join(names) or 'a plain value'}")


def _classes(kind: Any) -> Iterator[Any]:
    """The classes that a type names, at any depth; ``Any`` where it allows anything, or is not known."""
    if (parts := typing.get_args(kind)) and typing.get_origin(kind) is not typing.Literal:
        for part in parts:
            yield from _classes(part)
    elif isinstance(kind, type) and kind is not object:
        yield kind
    elif kind is Any or kind is object or isinstance(kind, typing.TypeVar):
        yield Any


def _is_one(cls: type, kind: type) -> bool:
    if kind in cls.__mro__:
        return True
    if not getattr(kind, "_is_protocol", False):
        return False
    return all(callable(getattr(cls, name, None)) for name in _methods(kind))


def _methods(protocol: type) -> set[str]:
    own = [one for one in protocol.__mro__ if getattr(one, "_is_protocol", False)]
    return {name for one in own for name, value in vars(one).items() if callable(value) and not name.startswith("_")}
