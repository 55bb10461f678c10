"""Profiles of TensorFlow and JAX (``.xplane.pb``): steps, operations of devices, loading; nothing is executed.

Source of the format: xplane.proto of OpenXLA (https://github.com/openxla/xla, third_party/tsl/tsl/profiler/protobuf).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.files import natural
from analysis.logs.exposed import divide_steps
from analysis.logs.gathering import gather
from analysis.logs.intervals import Floats
from analysis.logs.limits import MOST_FILES, MOST_OBJECTS, MOST_STEP
from analysis.logs.opening import open_bytes
from analysis.logs.profiler import COMMUNICATION
from analysis.logs.several import Counted, read_each
from analysis.logs.step_log import LogError, StepLog, Untimed
from reading import Unreadable
from reading.protobuf import Value, as_signed, fields
from reading.unpacked import plain_name

NAME = ".xplane.pb"
HOST, DEVICE = "/host:CPU", "/device:"
STEPS = "Steps"
"""The line of a device on which it marks steps itself."""
OPERATIONS = re.compile(r"XLA Ops|Stream #")
"""Lines of a device with what it computes; other lines repeat that by module, by name or by line of code."""
NUMBERED_BY = "step_num"
"""The statistic of a span of the host that is a step."""
COLLECTIVE = re.compile(r"all-(?:reduce|gather|to-all)|reduce-scatter|collective-permute|^(?:send|recv)(?:-done)?\b")
"""XLA's operations between devices; the kernels for them have the names that they have in other profiles."""
LOADING = re.compile(r"Iterator\w{0,40}GetNext|InfeedEnqueue|\bdata_?load", re.IGNORECASE)
PICO, NANO_IN_PICO = 1e-12, 1000
NO_STEPS = (
    "has no steps; put jax.profiler.StepTraceAnnotation('train', step_num=n) or "
    "tf.profiler.experimental.Trace('train', step_num=n, _r=1) around each"
)


class Span(NamedTuple):
    """An event of a line, in picoseconds since the profile began; ``step``: its number, if it is one."""

    name: str
    begin_ps: int
    end_ps: int
    step: int | None


class Plane:
    """A host or a device: its lines, each with its events."""

    def __init__(self, message: bytes) -> None:
        self._parts: dict[int, list[Value]] = {}
        for number, value in fields(message):
            self._parts.setdefault(number, []).append(value)

    @cached_property
    def name(self) -> str:
        """As the profiler calls it, such as ``/device:GPU:0``."""
        return _text(self._parts.get(2, [b""])[-1])

    @cached_property
    def lines(self) -> list[dict[int, list[Value]]]:
        """The fields of each line."""
        return [_group_fields(one) for one in self._parts.get(3, []) if isinstance(one, bytes)]

    @cached_property
    def begin_ns(self) -> int | None:
        """When its first line begins; None: it has none."""
        return min((_number(line, 3) for line in self.lines if line.get(4)), default=None)

    def spans(self, lines: re.Pattern[str], first_ns: int, left: list[int]) -> Iterator[Span]:
        """The events of lines with such a name; ``left``: how many more may be read, in its only place."""
        names, number_id = (
            self._names_of(4),
            next((key for key, name in self._names_of(5).items() if name == NUMBERED_BY), -1),
        )
        for line in self.lines:
            if not lines.search(_text(line.get(11, line.get(2, [b""]))[-1])):
                continue
            begin_ps = (_number(line, 3) - first_ns) * NANO_IN_PICO
            for event in line.get(4, []):
                left[0] -= 1
                if left[0] < 0 or not isinstance(event, bytes):
                    return
                parts = _group_fields(event)
                begin = begin_ps + _number(parts, 2)
                step = next((_number(one, 4, 3) for one in _stats(parts) if _number(one, 1) == number_id), None)
                yield Span(names.get(_number(parts, 1), ""), begin, begin + max(0, _number(parts, 3)), step)

    def _names_of(self, number: int) -> dict[int, str]:
        """Names by their number, of a map with values that have a name in field 2."""
        found = {}
        for entry in self._parts.get(number, []):
            if isinstance(entry, bytes):
                parts = _group_fields(entry)
                value = parts.get(2, [b""])[-1]
                found[_number(parts, 1)] = (
                    _text(_group_fields(value).get(2, [b""])[-1]) if isinstance(value, bytes) else ""
                )
        return found


def is_xplane(path: Path) -> bool:
    """Whether the file is named as the profiler names its files."""
    return plain_name(path).endswith(NAME)


def xplanes_in(folder: Path) -> list[Path]:
    """The profiles of a folder, or of the newest session below it if the profiler was given that folder.

    Raises:
        LogError: there are too many.
    """
    places = ("*", "plugins/profile/*/*")
    found = [path for place in places for path in folder.glob(place) if is_xplane(path) and path.is_file()]
    if not found:
        return []
    newest = max({path.parent for path in found}, key=lambda parent: natural(str(parent)))
    if len(found := [path for path in found if path.parent == newest]) > MOST_FILES:
        raise LogError(f"{newest}: has {len(found):,} profiles; name a folder of {MOST_FILES:,} at most")
    return sorted(found, key=lambda path: natural(path.name))


def read_xplanes(paths: Sequence[Path], counted: Counted = list) -> StepLog:
    """Steps of every device, or of every host without devices: own work is the step without exposed communication.

    A step is what the device marks as one, else the host's span that has its number. Loading is the time in which the
    host waits for the next batch while the device is idle.

    Raises:
        LogError: a file is damaged, or too large.
        Untimed: no step is marked.
    """
    found, broken = read_each(paths, _rows, counted)
    rows = pd.concat(found, ignore_index=True)
    source = str(paths[0]) if len(paths) == 1 else f"{len(found)} profiles in {paths[0].parent}"
    return gather(source, rows, remarks=broken)


def _rows(path: Path) -> pd.DataFrame:
    """The steps of a host's devices."""
    try:
        with open_bytes(path) as file:
            space = file.read()
        planes = [Plane(one) for number, one in fields(space) if number == 1 and isinstance(one, bytes)]
        return _steps(path, planes)
    except Unreadable as error:
        raise LogError(f"{path}: is no profile of TensorFlow or JAX, or damaged ({error}); profile again") from None


def _steps(path: Path, planes: Sequence[Plane]) -> pd.DataFrame:
    first_ns = min((one.begin_ns for one in planes if one.begin_ns is not None), default=0)
    left, anything = [MOST_OBJECTS], re.compile("")
    of_host = [
        span
        for plane in planes
        if plane.name == HOST
        for span in plane.spans(anything, first_ns, left)
        if span.step is not None or LOADING.search(span.name)
    ]
    loading, frames = [one for one in of_host if one.step is None], list[pd.DataFrame]()
    devices = [plane for plane in planes if plane.name.startswith(DEVICE)]
    for device in devices:
        marked = [
            span._replace(step=int(span.name))
            for span in device.spans(re.compile(STEPS), first_ns, left)
            if _is_number(span)
        ]
        operations = list(device.spans(OPERATIONS, first_ns, left))
        if operations:
            frames.append(_device(device.name.removeprefix(DEVICE), marked or of_host, operations, loading))
    if not frames:
        frames.append(_device("", of_host, [], loading))
    if left[0] < 0:
        raise LogError(f"{path}: has more than {MOST_OBJECTS:,} events, the most that are read; profile fewer steps")
    host, rows = path.name[: plain_name(path).index(NAME)], pd.concat(frames, ignore_index=True)
    if rows.empty:
        raise Untimed(f"{path}: {NO_STEPS}")
    several = rows["device"].nunique() > 1
    rows["rank"] = [f"{host}:{one}" if several else host for one in rows["device"]]
    return rows.assign(host=host).drop(columns="device")


def _device(name: str, marked: Sequence[Span], operations: Sequence[Span], loading: Sequence[Span]) -> pd.DataFrame:
    """A row per step; of two spans with one number the longer one is the step."""
    steps: dict[int, Span] = {}
    for one in marked:
        if one.step is not None and 0 <= one.step < MOST_STEP:
            steps[one.step] = max(steps.get(one.step, one), one, key=lambda span: span.end_ps - span.begin_ps)
    numbers = sorted(steps, key=lambda number: steps[number].begin_ps)
    working, sending = list[Span](), list[Span]()
    for one in operations:
        (sending if _is_sending(one.name) else working).append(one)
    parts = divide_steps(_ends([steps[one] for one in numbers]), _ends(working), _ends(sending), _ends(loading))
    rows = pd.DataFrame({"device": name, "step": numbers, "round_s": parts.step * PICO})
    if operations:
        rows["comm_s"] = parts.communication * PICO
    rows["own_s"] = rows["round_s"] - rows.get("comm_s", 0.0)
    return rows.assign(data_s=parts.loading * PICO) if loading else rows


def _ends(spans: Sequence[Span]) -> Floats:
    """[n, 2]: begin and end, in picoseconds."""
    return np.array([(one.begin_ps, one.end_ps) for one in spans], "float64").reshape(-1, 2)


def _is_sending(name: str) -> bool:
    return bool(COLLECTIVE.search(name) or COMMUNICATION.search(name.encode()))


def _is_number(span: Span) -> bool:
    return span.name.isascii() and span.name.isdecimal() and len(span.name) < 16


def _stats(event: dict[int, list[Value]]) -> Iterator[dict[int, list[Value]]]:
    return (_group_fields(one) for one in event.get(4, []) if isinstance(one, bytes))


def _group_fields(message: bytes) -> dict[int, list[Value]]:
    """The values of each field."""
    found: dict[int, list[Value]] = {}
    for number, value in fields(message):
        found.setdefault(number, []).append(value)
    return found


def _number(parts: dict[int, list[Value]], *numbers: int) -> int:
    """The first of these fields that is there, as a whole number; 0 if none is."""
    return as_signed(next((parts[one][-1] for one in numbers if one in parts), 0))


def _text(value: Value) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""
