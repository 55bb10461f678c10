"""Strict conversion of plain data to types, with messages that name the setting and the cure."""

from __future__ import annotations

import difflib
import functools
import math
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from reading.errors import shown
from runtime.errors import ConfigError

_KINDS = {
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.StrType: "text",
    inspect.NoneType: "null",
    inspect.ListType: "a list",
    inspect.VarTupleType: "a list",
    inspect.DictType: "settings",
    inspect.CustomType: "settings with a _target_",
}
NESTED = (dict, list, tuple, Mapping)
"""Types of settings that contain settings; dict comes first, as the usual one and the fastest to check."""
_RANGES = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}


@functools.cache
def _info_of(kind: Any, name: str) -> inspect.Type:
    """``name``: unions that differ in their order only are equal, and messages are not."""
    return inspect.type_info(kind)


def type_info(kind: Any) -> inspect.Type:
    """The description of a type, which takes a millisecond to find: what can be a key is described once."""
    try:
        return _info_of(kind, str(kind))
    except TypeError:
        return inspect.type_info(kind)


@functools.cache
def _hints_of(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def convert(value: Any, kind: Any, path: str) -> Any:
    """``value`` as an instance of the type ``kind``; raises :class:`ConfigError` naming ``path`` and the cure.

    Strict: no text for a number, no boolean and no 3.0 for an integer (but an integer for a float), no key that the
    type does not have. Raises ``TypeError`` for a type that does not describe plain data.
    """
    _refuse_unknown(value, type_info(kind), path)
    for where, inner, inner_kind in _free_entries(value, kind, path):
        convert(inner, inner_kind, where)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error), value, type_info(kind), path)) from None


def join(*names: str) -> str:
    """Dotted path of the names that are not empty."""
    return ".".join(name for name in names if name)


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The nearest of ``known`` to ``name``."""
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)), None)


def suggest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """``; did you mean X?`` with the nearest of ``known``, else the whole choice in brackets."""
    known = sorted(known)
    if near := nearest(name, known):
        return f"; did you mean {join(prefix, near)}?"
    return f" ({', '.join(known)})" if known else ""


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of nested mappings and lists with its dotted path."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from leaves(value, join(path, str(key)))
    elif isinstance(tree, list | tuple):
        for i, value in enumerate(tree):
            yield from leaves(value, f"{path}[{i}]")
    else:
        yield path, tree


def refuse_nonfinite(tree: Any, path: str = "") -> None:
    """NaN passes every comparison and infinity every lower bound, so no setting may be either."""
    for name, value in leaves(tree, path):
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{name}={value}: must be a finite number")


def show(value: Any) -> str:
    """A value in the notation of the command line, shortened."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return shown(value)


def _free_entries(value: Any, kind: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Entries of mappings whose keys are free (msgspec does not say which of them is wrong), each with its type."""
    for option in (kind, *typing.get_args(kind)) if isinstance(value, Mapping) else ():
        if typing.get_origin(option) in (dict, Mapping):
            inner_kind = typing.get_args(option)[1]
            yield from ((join(path, str(key)), inner, inner_kind) for key, inner in value.items())
        elif isinstance(option, type) and issubclass(option, msgspec.Struct):
            for name, field_kind in _hints_of(option).items():
                if name in value:
                    yield from _free_entries(value[name], field_kind, join(path, name))


def _refuse_unknown(value: Any, node: inspect.Type, path: str) -> None:
    """Also for nested types that would ignore keys they do not know: a setting without effect is an error."""
    if isinstance(value, list | tuple):
        for i, item in enumerate(value):
            if isinstance(item, NESTED):
                _refuse_unknown(item, _inside(node, str(i)), f"{path}[{i}]")
    if not isinstance(value, Mapping):
        return
    names = _field_names(node)
    for key, inner in value.items():
        if names and key not in names:
            raise ConfigError(f"{join(path, show(key))}: no such setting{suggest(str(key), names, path)}")
        if isinstance(inner, NESTED):
            _refuse_unknown(inner, _inside(node, str(key)), join(path, str(key)))


def _explain(message: str, value: Any, node: inspect.Type, path: str) -> str:
    what, _, where = message.replace(of_name := "`key` in `$", "`$").partition(" - at `$")
    for step in re.findall(r"[^.\[\]`]+", where):
        inside_list = isinstance(value, list | tuple)
        node = _inside(node, step)
        value = value[int(step)] if inside_list else value.get(step)
        path = f"{path}[{step}]" if inside_list else join(path, step)
    if field := re.match(r"Object missing required field `(.*)`", what):
        return f"{join(path, field[1])}: missing"
    if limit := re.match(r"Expected `\w+` ([<>]=?) (\S+)", what):
        return f"{path}={show(value)}: must be {_RANGES[limit[1]]} {limit[2].removesuffix('.0')}"
    if of_name in message:
        kind, wanted = (int, "a whole number") if what.startswith("Expected `int`") else (str, "a name")
        wrong = next(key for key in value if type(key) is not kind)
        return f"{path}={show(value)}: {show(wrong)} must be {wanted}"
    wanted = " or ".join(_describe(option) for option in _options(node))
    if isinstance(value, str) and path.endswith("_s"):  # 10min, 300ms
        wanted = wanted.replace("a number", "a number of seconds", 1)
    return f"{path}={show(value)}: must be {wanted}"


def _options(node: inspect.Type) -> tuple[inspect.Type, ...]:
    return node.types if isinstance(node, inspect.UnionType) else (node,)


def _field_names(node: inspect.Type) -> set[str]:
    """Keys that a mapping for ``node`` may have; empty if they are free."""
    names = {field.encode_name for option in _options(node) for field in getattr(option, "fields", ())}
    return names | {tag for option in _options(node) if (tag := getattr(option, "tag_field", None))}


def _inside(node: inspect.Type, step: str) -> inspect.Type:
    """The type of the field or element ``step`` of ``node``; ``Any`` if it is unknown."""
    unions = (option for option in _options(node) if isinstance(option, inspect.StructType))
    tags = tuple(option.tag for option in unions if option.tag_field == step)
    if tags:
        return inspect.LiteralType(values=tags)
    for option in _options(node):
        for field in getattr(option, "fields", ()):
            if field.encode_name == step:
                return field.type  # type: ignore[no-any-return]
        if isinstance(option, inspect.TupleType) and step.isdecimal() and int(step) < len(option.item_types):
            return option.item_types[int(step)]
        inner = getattr(option, "item_type", None) or getattr(option, "value_type", None)
        if inner is not None:
            return inner  # type: ignore[no-any-return]
    return inspect.AnyType()


def _describe(node: inspect.Type) -> str:
    """A description of the right values."""
    if isinstance(node, inspect.LiteralType):
        return "one of " + ", ".join(show(value) for value in node.values)
    if isinstance(node, inspect.TupleType):
        return f"a list of {len(node.item_types)}"
    kind = _KINDS.get(type(node), "settings" if hasattr(node, "fields") else "something else")
    if isinstance(node, inspect.TupleType):
        return f"{kind} of {len(node.item_types)}"
    lowest = getattr(node, "ge", None)
    return kind if lowest is None else f"{kind}, at least {lowest:g}"
