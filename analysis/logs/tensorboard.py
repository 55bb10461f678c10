"""Event files of TensorBoard: scalars with their steps and moments; the format is decoded here, and nothing executed.

Source of the format: tensorflow/core/lib/io/record_writer.h, and event.proto, summary.proto and tensor.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pandas as pd

from analysis.files import natural
from analysis.logs.limits import MOST_FILES, MOST_ROWS
from analysis.logs.metrics import HOW_TO_LOG, read_metrics
from analysis.logs.opening import open_bytes
from analysis.logs.several import Counted, read_each
from analysis.logs.step_log import LogError, StepLog, Untimed
from analysis.logs.trace_folder import RANK
from reading import Unreadable
from reading.protobuf import Value, as_float, as_signed, fields

NAME = ".tfevents."
HEAD = 12
"""Bytes before a record: its length, and a checksum of the length."""
FOOT = 4
MOST_RECORD = 1 << 27
POLYNOMIAL = 0x82F63B78
"""Polynomial of CRC-32C, with its bits in reverse."""
FLOAT, DOUBLE = 1, 2
"""Kinds of tensors."""


def is_event_file(path: Path) -> bool:
    """Whether the file is named as TensorBoard's writers name theirs."""
    return NAME in path.name


def read_events(path: Path, rank: str) -> tuple[pd.DataFrame, list[str]]:
    """(a row per scalar with ``rank``, ``step``, ``name``, ``value`` and ``clock_s``; remarks) of a file.

    A record that is cut off ends the file: the job was stopped while it wrote.

    Raises:
        LogError: it is no event file, or damaged.
    """
    rows = list[tuple[str, int, str, float, float]]()
    remarks = list[str]()
    try:
        for record in _records(path, remarks):
            rows += islice(((rank, *scalar) for scalar in _scalars(record)), MOST_ROWS + 1 - len(rows))
            if len(rows) > MOST_ROWS:
                raise LogError(
                    f"{path}: has more than {MOST_ROWS:,} scalars, the most that are read; give a part of it"
                )
    except Unreadable as error:
        raise LogError(f"{path}: {error}") from None
    return pd.DataFrame(rows, columns=["rank", "step", "name", "value", "clock_s"]), remarks


def event_files_in(folder: Path) -> list[Path]:
    """The event files of a folder and of the folders in it.

    Raises:
        LogError: there are too many.
    """
    found = [path for path in (*folder.glob("*"), *folder.glob("*/*"), *folder.glob("*/*/*")) if is_event_file(path)]
    if len(found) > MOST_FILES:
        raise LogError(f"{folder}: has {len(found):,} event files; name a folder of {MOST_FILES:,} at most")
    return sorted(found, key=lambda path: natural(str(path)))


def read_event_files(paths: Sequence[Path], unit_s: float | None = None, counted: Counted = list) -> StepLog:
    """The steps of a job's event files; the rank is the number after a word for ranks in the name of a file or folder.

    Raises:
        LogError: files in several folders name no ranks, or one is damaged.
        Untimed: there are no scalars.
    """
    folders = list(dict.fromkeys(path.parent for path in paths))
    ranks = {path: _rank_of(path) for path in paths}
    if len(folders) > 1 and len(set(ranks.values())) < len(folders):
        raise LogError(
            f"{folders[0]} and {len(folders) - 1} more folders have event files, and their names have no rank (rank_0, "
            "rank_1 ...); name one of them"
        )
    found, remarks = read_each(paths, lambda path: read_events(path, ranks[path]), counted)
    remarks += (line for _, said in found for line in said)
    long = pd.concat([frame for frame, _ in found], ignore_index=True)
    if long.empty:
        raise Untimed(f"{paths[0]}: has no scalars; {HOW_TO_LOG}")
    source = str(paths[0]) if len(paths) == 1 else f"{len(found)} event files"
    return read_metrics(source, long, remarks, unit_s)


def _rank_of(path: Path) -> str:
    found = RANK.search(path.name) or RANK.search(path.parent.name)
    return found[1] if found else "0"


def _records(path: Path, remarks: list[str]) -> Iterator[bytes]:
    with open_bytes(path) as file:
        while head := file.read(HEAD):
            length = int.from_bytes(head[:8], "little")
            if len(head) == HEAD and int.from_bytes(head[8:], "little") != masked_crc(head[:8]):
                raise LogError(
                    f"{path}: is no event file of TensorBoard, or damaged (a checksum is wrong); copy it again"
                )
            if len(head) == HEAD and length > MOST_RECORD:
                raise LogError(f"{path}: has a record of {length:,} bytes, more than the {MOST_RECORD:,} that are read")
            record = file.read(length + FOOT) if len(head) == HEAD else b""
            if len(head) < HEAD or len(record) < length + FOOT:
                remarks.append(f"{path}: ends within a record, which is left out")
                return
            yield record[:length]


def masked_crc(data: bytes) -> int:
    """The checksum of a few bytes as record files have it: CRC-32C, rotated, and a constant added."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (POLYNOMIAL if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _scalars(event: bytes) -> Iterator[tuple[int, str, float, float]]:
    """(step, tag, value, seconds since 1970) of every scalar of an event."""
    found: dict[int, Value] = dict(fields(event))
    summary, step, clock_s = found.get(5), as_signed(found.get(2, 0)), as_float(found.get(1, 0), 8)
    if not isinstance(summary, bytes):
        return
    for number, value in fields(summary):
        if number == 1 and isinstance(value, bytes):
            parts: dict[int, Value] = dict(fields(value))
            tag = parts.get(1, b"")
            scalar = as_float(parts[2], 4) if 2 in parts else _of_tensor(parts.get(8))
            if isinstance(tag, bytes) and scalar is not None:
                yield step, tag.decode(errors="replace"), scalar, clock_s


def _of_tensor(tensor: Value | None) -> float | None:
    """The only number of a tensor, if it holds one float or double."""
    if not isinstance(tensor, bytes):
        return None
    parts: dict[int, Value] = dict(fields(tensor))
    form, size = ("<f", 4) if parts.get(1) == FLOAT else ("<d", 8)
    content = parts.get(4) or parts.get(5 if parts.get(1) == FLOAT else 6)
    if parts.get(1) not in (FLOAT, DOUBLE) or not isinstance(content, bytes) or len(content) != size:
        return None
    return float(struct.unpack(form, content)[0])
