"""Plain data from YAML and JSON: no object is made that the text names, and nothing grows beyond the text.

A few lines of YAML can stand for billions of values (aliases of aliases), and deep nesting exhausts the stack of code
that walks it. So the events of the parser are counted before anything is built.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from reading.errors import Unreadable, shown
from reading.files import MIB, read_bytes

T = TypeVar("T")
MAX_YAML_BYTES = 8 * MIB
MAX_JSON_VALUES = 12_000_000
"""In a text in JSON: about a gigabyte of memory."""
MAX_DEPTH = 64
MAX_VALUES = 1_000_000
"""In a YAML file, counted as often as aliases repeat them."""
MAX_WHOLE = 2**64
"""Whole numbers beyond it are no count, size or time of anything."""
MAX_DIGITS = 100
"""Digits of a number; people and programs write 24 at most for a double."""


def load_yaml(path: Path) -> Any:
    """The plain data of a YAML file; raises :class:`Unreadable` naming the line."""
    return parse_yaml(read_bytes(path, MAX_YAML_BYTES))


def measure_yaml(path: Path) -> None:
    """Raise :class:`Unreadable` for a YAML file above the limits; the reader refuses text that is no YAML."""
    import yaml

    data = read_bytes(path, MAX_YAML_BYTES)
    with suppress(yaml.YAMLError):
        _measure(yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def parse_yaml(data: bytes) -> Any:
    """The plain data of the text of a YAML file; raises :class:`Unreadable` naming the line."""
    import yaml  # workers read no YAML, and should not import it

    if len(data) > MAX_YAML_BYTES:
        raise Unreadable(f"has more than {MAX_YAML_BYTES // MIB} MiB, which is the most that is read of a YAML file")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _measure(yaml.parse(data, Loader=loader))
        return _strict(loader)(data).get_single_data()
    except Unreadable:
        raise
    except yaml.YAMLError as error:
        raise Unreadable(f"is not a YAML file ({_of_yaml(error)})") from None
    except RecursionError:
        raise Unreadable("is not a YAML file (nested too deeply)") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:  # an impossible date, or the like
        raise Unreadable(f"is not a YAML file ({shown(error, 120)})") from None


def parse_json(data: bytes | str, kind: type[T] | Any = Any) -> T | Any:
    """The data of a text in JSON, of the type ``kind``; raises :class:`Unreadable`."""
    import msgspec

    marks: Any = (b",", b"[", b"{") if isinstance(data, bytes) else (",", "[", "{")
    if sum(data.count(mark) for mark in marks) > MAX_JSON_VALUES:
        raise Unreadable(f"holds more than {MAX_JSON_VALUES} values, which are the most that are read")
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:  # a ValidationError, too
        raise Unreadable(shown(error, 200)) from None
    except (UnicodeDecodeError, RecursionError, OverflowError, ValueError, MemoryError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else shown(error, 120)
        raise Unreadable(f"is not JSON that is read ({reason})") from None


def _measure(events: Iterator[Any]) -> None:
    """Raise :class:`Unreadable` for what nests too deeply, or is too much when all aliases are written out."""
    total, open_since, size_of = 0, list[tuple[str | None, int]](), dict[str | None, int]()
    for event in events:
        kind = type(event).__name__
        if kind in ("MappingEndEvent", "SequenceEndEvent"):
            anchor, before = open_since.pop()
            size_of[anchor] = total - before
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            size_of.pop(event.anchor, None)  # of an earlier one of this name
            open_since.append((event.anchor, total))
            total += 1
        elif kind == "ScalarEvent":
            size_of[event.anchor] = 1
            total += 1
        elif kind == "AliasEvent":
            if event.anchor not in size_of:
                raise Unreadable(f"{_line(event)}: *{shown(event.anchor)} refers to itself, or to nothing")
            total += size_of[event.anchor]
        if len(open_since) > MAX_DEPTH:
            raise Unreadable(f"{_line(event)}: is nested more than {MAX_DEPTH} deep, which nothing here needs")
        if total > MAX_VALUES:
            raise Unreadable(f"{_line(event)}: holds more than {MAX_VALUES} values, counted where aliases repeat them")


def _strict(loader: Any) -> Any:
    """The safe loader, but it refuses duplicate keys and numbers that are none."""

    class Strict(loader):  # type: ignore[misc]
        pass

    def mapping(self: Any, node: Any) -> Iterator[dict[Any, Any]]:
        _refuse_twice(node)
        found: dict[Any, Any] = {}
        yield found
        found.update(self.construct_mapping(node))

    def whole(self: Any, node: Any) -> Any:
        value = None if len(node.value) > MAX_DIGITS else self.construct_yaml_int(node)
        if value is None or abs(value) > MAX_WHOLE:
            raise Unreadable(f"{_line(node)}: {shown(node.value)} is too large for a number")
        return value

    def real(self: Any, node: Any) -> Any:
        value = None if len(node.value) > MAX_DIGITS else self.construct_yaml_float(node)
        if value is None or (value in (float("inf"), -float("inf")) and "inf" not in node.value.lower()):
            raise Unreadable(f"{_line(node)}: {shown(node.value)} is too large for a number")
        return value

    Strict.add_constructor("tag:yaml.org,2002:map", mapping)
    Strict.add_constructor("tag:yaml.org,2002:int", whole)
    Strict.add_constructor("tag:yaml.org,2002:float", real)
    return Strict


def _refuse_twice(node: Any) -> None:
    if not isinstance(node.value, list):  # a text with the tag of a mapping, which the loader refuses
        return
    seen = set[tuple[str, str]]()
    for key, _ in node.value:
        if not isinstance(key.value, str):
            continue
        if (one := (key.tag, key.value)) in seen and not key.tag.endswith(":merge"):
            raise Unreadable(f"{_line(key)}: has {shown(key.value)} twice")
        seen.add(one)


def _line(part: Any) -> str:
    return f"line {part.start_mark.line + 1}"


def _of_yaml(error: Any) -> str:
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).partition("\n")[0]
    return f"line {mark.line + 1}: {shown(said, 120)}" if mark is not None else shown(said, 120)
