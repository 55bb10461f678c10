"""Builds the object that a ``_target_`` names, only from an allow-list.

A configuration can come from anywhere, so it must not be able to name arbitrary code: a target is a class that is
defined in a module below ``ALLOWED``, in the user's own project, or below a prefix that the user allows by name in the
environment. Hydra is not needed here, since worker processes build objects, too, and should not import it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import re
import traceback
import typing
from collections.abc import Mapping
from typing import Any

from runtime.config import project
from runtime.config.checking import convert, join, leaves, show, suggest
from runtime.config.roles import refuse_role, refuse_room
from runtime.errors import ConfigError
from runtime.house import house_name, module_name
from runtime.importing import importing

TARGET = "_target_"
ALLOWED = ("strategies.", "injectors.", "predictors.", "runtime.", "workloads.", "analysis.")
ALLOW_VARIABLE = "STRAGGLAB_ALLOW_TARGETS"
"""Environment variable with more module prefixes, separated by commas."""
FIELD = re.compile(r"(\w+)((?:\.[\w-]+|\[\d+\])*=|(?:\.[\w-]+|\[\d+\])+:|\[\d+\])?")
"""The beginning of an error: a field and, if the error names them, a place within it or its value."""


def instantiate(spec: Mapping[str, Any], path: str = "", **built: Any) -> Any:
    """The object that ``spec`` describes: ``_target_`` called with the other entries as keyword arguments.

    Nested mappings with a ``_target_`` are built first; objects in ``built`` are passed on as they are. ``path`` is the
    position of the spec in the configuration; errors name it. No constructor is called before the class is known to be
    one for this position (:mod:`runtime.config.roles`). Raises :class:`ConfigError` for a target that is not allowed,
    does not exist or is something else, for unknown, missing and mistyped fields, and for values that the constructor
    refuses.
    """
    return _make(spec, path, None, Any, built)


def _make(spec: Mapping[str, Any], path: str, owner: type | None, kind: Any, built: Mapping[str, Any]) -> Any:
    if not isinstance(spec.get(TARGET), str):
        group = f"; choose one with {path.partition('.')[0]}=NAME" if path else ""
        raise ConfigError(f"{path or 'spec'}: has no {TARGET}, so it names nothing to build{group}")
    refuse_room(house_name(spec[TARGET]), path, owner)
    cls = locate(spec[TARGET], join(path, TARGET))
    refuse_role(cls, house_name(spec[TARGET]), path, kind)
    fields = {str(key): value for key, value in spec.items() if key != TARGET}
    _check_names(cls, {**fields, **built}, path)
    kinds = _kinds(cls)
    fields = {name: _build(value, join(path, name), cls, kinds.get(name, Any)) for name, value in fields.items()}
    fields = {name: _check_type(value, kinds.get(name, Any), join(path, name)) for name, value in fields.items()}
    try:
        return cls(**fields, **built)
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise explain(error, fields, path) from error


def locate(target: str, path: str = TARGET) -> type:
    """The class named ``target``; raises :class:`ConfigError` unless it is allowed, exists, and is defined there."""
    target = house_name(target)
    where, _, name = target.rpartition(".")
    if not where or not is_allowed(target):
        raise ConfigError(
            f"{path}={target}: not below {', '.join(ALLOWED)}; name the project that it is in with "
            f"{project.SETTING}=DIR, or allow its package with {ALLOW_VARIABLE}=PACKAGE"
        )
    project.reach()
    try:
        with importing():
            module = importlib.import_module(module_name(where))
    except ModuleNotFoundError as error:
        missing = house_name(str(error.name))
        if is_allowed(missing):
            raise ConfigError(f"{path}={target}: there is no module {missing}") from None
        raise ConfigError(f"{path}={target}: needs {missing}, which is not installed") from error
    except Exception as error:  # a user's own module may raise anything
        if house_name(where).startswith(ALLOWED):
            raise
        raise ConfigError(f"{path}={target}: {where} cannot be imported ({_where(error)})") from error
    found = getattr(module, name, None)
    if not isinstance(found, type):
        classes = [key for key, value in vars(module).items() if isinstance(value, type) and is_allowed(_origin(value))]
        raise ConfigError(f"{path}={target}: {where} has no class {name}{suggest(name, classes)}")
    if not is_allowed(_origin(found)):
        raise ConfigError(f"{path}={target}: is defined in {found.__module__}, which is not allowed")
    return found


def _where(error: Exception) -> str:
    """An error of importing a module in one line, with the file and the line in which that stopped."""
    lines = traceback.extract_tb(error.__traceback__)
    name, number = lines[-1].filename, lines[-1].lineno
    if isinstance(error, SyntaxError):
        name, number = error.filename or name, error.lineno or number
    return f"{name}, line {number}: {type(error).__name__}: {' '.join(str(error).split())}"


def is_allowed(target: str) -> bool:
    """Whether a dotted name, ours in either form, lies below one of the allowed prefixes."""
    target = house_name(target)
    extra = (prefix.strip().rstrip(".") for prefix in os.environ.get(ALLOW_VARIABLE, "").split(","))
    allowed = (*ALLOWED, *(f"{prefix}." for prefix in (*project.packages(), *extra) if prefix))
    return f"{target}.".startswith(allowed) and all(part.isidentifier() for part in target.split("."))


def explain(error: Exception, fields: Mapping[str, Any], path: str) -> ConfigError:
    """The error of a constructor or check about one of its ``fields``, under the user's name of the field."""
    text = str(error)
    named = FIELD.match(text)
    if named is None or named[1] not in fields:
        return ConfigError(f"{path}: {text}" if path else text)
    if named[2]:
        return ConfigError(join(path, text))
    rest = text[named.end() :].lstrip(": ")
    return ConfigError(f"{join(path, named[1])}={show(fields[named[1]])}: {rest}")


def _origin(cls: type) -> str:
    return house_name(f"{cls.__module__}.{cls.__name__}")


def _build(value: Any, path: str, owner: type, kind: Any) -> Any:
    if isinstance(value, Mapping):
        if TARGET in value:
            return _make(value, path, owner, kind, {})
        return {key: _build(inner, join(path, str(key)), owner, kind) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_build(inner, f"{path}[{i}]", owner, kind) for i, inner in enumerate(value)]
    return value


def _check_names(cls: type, fields: Mapping[str, Any], path: str) -> None:
    parameters = inspect.signature(cls).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in fields:
        if name not in parameters and not takes_any:
            raise ConfigError(f"{join(path, name)}: no such setting{suggest(name, parameters, path)}")
    for name, parameter in parameters.items():
        optional = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if name not in fields and parameter.default is parameter.empty and not optional:
            raise ConfigError(f"{join(path, name)}: missing")


@functools.cache
def _kinds(cls: type) -> dict[str, Any]:
    """Types of the constructor's arguments, as far as known."""
    own_init = cls if hasattr(cls, "__dataclass_fields__") else vars(cls).get("__init__", cls)
    try:
        return typing.get_type_hints(own_init, include_extras=True)
    except (NameError, TypeError):  # an annotation that exists for the type checker only
        return {}


def _check_type(value: Any, kind: Any, path: str) -> Any:
    """Check plain data against the argument's type; the constructor checks objects built from nested specs."""
    if not all(isinstance(leaf, str | int | float | None) for _, leaf in leaves(value)):
        return value
    if getattr(kind, "_is_protocol", False) or inspect.isabstract(kind):  # no plain data are an object of it
        raise ConfigError(f"{path}={show(value)}: must be settings with a {TARGET}")
    try:
        return convert(value, kind, path)
    except TypeError:  # a type that does not describe plain data
        return value
