"""A sum as execution traces of Chakra have it (``topology.trace_dir``): reading one file per rank."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from reading import Unreadable
from reading.chakra import COMPUTING, RECEIVING, SENDING, nodes
from reading.files import MIB
from reading.unpacked import open_unpacked, plain_name
from runtime.core.collectives.schedule import Schedule
from runtime.core.collectives.trace import Step, schedule_of_traces
from runtime.errors import ConfigError

SETTING = "topology.trace_dir"
NAME = re.compile(r"(\d{1,4})\.et$")
MOST_BYTES = 4 * MIB
"""Size of a trace, unpacked."""
MOST_RANKS = 256
MOST_MESSAGES = 100_000


def read_trace(folder: Path) -> Schedule:
    """The schedule of the sum that the files of a folder, named ``NAME.RANK.et``, show.

    Raises:
        ConfigError: there is none, or it is no sum.
    """
    label = f"{SETTING}={folder}"
    try:
        found = {int(name[1]): path for path in folder.iterdir() if (name := NAME.search(plain_name(path)))}
    except OSError as error:
        raise ConfigError(f"{label}: {(error.strerror or 'cannot be read').lower()}; name a folder") from None
    if not 2 <= len(found) <= MOST_RANKS or max(found) != len(found) - 1:
        raise ConfigError(
            f"{label}: has traces of {len(found)} ranks; name a folder with NAME.0.et, NAME.1.et ... of 2 to "
            f"{MOST_RANKS} ranks, and of all of them"
        )
    try:
        ranks = [list(_steps(found[rank])) for rank in range(len(found))]
        if sum(map(len, ranks)) > 2 * MOST_MESSAGES:
            raise ValueError(f"has more than {MOST_MESSAGES:,} messages; give a trace of one sum")
        return schedule_of_traces(ranks)
    except ValueError as error:
        raise ConfigError(f"{label}: {error}") from None


def _steps(path: Path) -> Iterator[Step]:
    """The messages that one rank sends and receives, in the order of its file."""
    try:
        with open_unpacked(path, MOST_BYTES) as file:
            found = list(nodes(file.read()))
    except Unreadable as error:
        raise Unreadable(f"{path.name} {error}") from None
    used = {number for node in found if node.kind == COMPUTING for number in node.after}
    for node in found:
        if node.kind == SENDING:
            yield Step(True, *_about(node.words, b"comm_dst"))
        elif node.kind == RECEIVING:
            yield Step(False, *_about(node.words, b"comm_src"), adds=node.number in used)


def _about(words: dict[bytes, int], peer: bytes) -> tuple[int, int, int]:
    """The other rank, the tag and the bytes of a message."""
    return words.get(peer, -1), words.get(b"comm_tag", 0), words.get(b"comm_size", 0)
