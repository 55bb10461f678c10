"""Dumps of PyTorch's flight recorder, one per rank: the collectives that a rank has begun and not completed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from analysis.logs.limits import MEBI, MOST_FILES
from analysis.logs.opening import open_bytes
from analysis.logs.step_log import LogError
from analysis.logs.trace_folder import ranks_by_name
from reading.errors import shown
from reading.pickles import is_pickle, read_pickle

MOST_BYTES = 64 * MEBI
"""Size of a dump."""
LOOKED_AT = 256
KEYS = (b"version", b"entries", b"pg_config")
"""A dump begins with one of them."""
PEER = re.compile(r"(?:send (\d{1,9})->(\d{1,9})|recv (\d{1,9})<-(\d{1,9}))$")
NUMBER = re.compile(r"\d{1,9}")
COMPLETED = "completed"


class Operation(NamedTuple):
    """A collective or a message that a rank has begun.

    ``number``: in its group; ``peer``: the other end of a message, a rank of the job.
    """

    group: str
    number: int
    name: str
    peer: int | None = None


class Group(NamedTuple):
    """A group of ranks that communicate (process group)."""

    what: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Dump:
    """The record of one rank.

    Attributes:
        groups: by name, the groups that it is in.
        waiting: operations that are not completed, the first one first.
        joined: by group, the number of the last collective that it has begun; unknown ones are missing.
        counted: groups of which a counter of the dump says that, which counts messages if the group sends any.
    """

    groups: Mapping[str, Group]
    waiting: Sequence[Operation]
    joined: dict[str, int] = field(default_factory=dict)
    counted: Set[str] = frozenset()


def dumps_of(path: Path) -> dict[int, Dump]:
    """The dumps by rank that a path names: itself, or the files of a folder; empty if it is none and has none.

    The rank is the number in a file's name.

    Raises:
        LogError: a folder has too many; a dump has no rank or another one's, or is damaged.
    """
    try:
        paths = sorted(path.iterdir()) if path.is_dir() else [path]
    except OSError:
        return {}  # the reader of other logs says why
    if len(paths) > MOST_FILES:
        return {}
    paths = [one for one in paths if one.is_file() and _is_dump(one)]
    named, dumps, messages = ranks_by_name(paths), dict[int, Dump](), set[str]()
    for one in paths:
        if one not in named:
            raise LogError(f"{one}: no rank is in its name; call it dump_0, dump_1 ...")
        if (rank := int(named[one])) in dumps:
            raise LogError(f"{one}: is of rank {rank}, as another one is; name the dumps of one job")
        dumps[rank] = _read(one)
        messages |= {each.group for each in dumps[rank].waiting if each.peer is not None}
    for dump in dumps.values():
        for group in messages & dump.counted:
            del dump.joined[group]
    return dumps


def _is_dump(path: Path) -> bool:
    with contextlib.suppress(OSError, LogError), open_bytes(path) as file:
        begin = file.read(LOOKED_AT)
        return is_pickle(begin) and any(key in begin for key in KEYS)
    return False


def _read(path: Path) -> Dump:
    with open_bytes(path) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise LogError(f"{path}: has more than {MOST_BYTES // MEBI} MiB, the most that is read of a dump")
    try:
        return _dump(read_pickle(data, arrays=False))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise LogError(f"{path}: is no dump of the flight recorder ({shown(error, most=200)})") from None


def _dump(found: Any) -> Dump:
    groups = {
        _text(name): Group(
            _text(about.get("desc") or name), tuple(map(int, NUMBER.findall(_text(about.get("ranks", "")))))
        )
        for name, about in found["pg_config"].items()
    }
    entries = sorted(found["entries"], key=lambda entry: int(entry.get("record_id", 0)))
    waiting, joined = list[Operation](), dict[str, int]()
    for entry in entries:
        group, message = _text(entry["process_group"][0]), bool(entry.get("is_p2p"))
        number, name = int(entry["p2p_seq_id" if message else "collective_seq_id"]), _text(entry["profiling_name"])
        if not message:
            joined[group] = max(joined.get(group, 0), number)
        if entry["state"] != COMPLETED:
            peer = _peer(name, groups[group].ranks if group in groups else ()) if message else None
            if peer is not None or not message:  # of other messages the other end is not known
                waiting.append(Operation(group, number, name.removeprefix("nccl:"), peer))
    status = {name: int(each["last_enqueued_collective"]) for name, each in _status(found, entries).items()}
    counted = {name for name, number in status.items() if number > joined.get(name, 0)}
    return Dump(groups, waiting, joined | {name: status[name] for name in counted}, counted)


def _text(value: Any) -> str:
    """A text or a number as text; a container that holds itself many times would be endless.

    Raises:
        TypeError: it is anything else.
    """
    if not isinstance(value, str | int):
        raise TypeError(f"{type(value).__name__} instead of a text")
    return str(value)


def _peer(name: str, ranks: Sequence[int]) -> int | None:
    """The other end of a message as a rank of the job."""
    said = PEER.search(name)
    place = int(said[2] or said[4]) if said else len(ranks)
    return ranks[place] if place < len(ranks) else None


def _status(found: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The counters of every group by its name: a dump has them by a number that its entries may explain.

    If it has as many groups as counters, both are in the order in which the groups were made, unless an entry differs.
    """
    status, names = found.get("pg_status") or {}, list(found["pg_config"])
    known = {_text(entry["pg_id"]): _text(entry["process_group"][0]) for entry in entries if "pg_id" in entry}
    if len(status) == len(names) and all(str(name).isdecimal() for name in (*status, *names)):
        ordered = dict(zip(sorted(map(str, status), key=int), sorted(map(str, names), key=int), strict=True))
        known = ordered if all(ordered.get(one) == group for one, group in known.items()) else known
    return {known[str(one)]: counters for one, counters in status.items() if str(one) in known}
