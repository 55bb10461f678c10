"""One file in Chrome's trace format, decoded as far as it is needed; the rest of it takes no memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from analysis.logs.limits import MEBI, MOST_OBJECTS
from analysis.logs.opening import content
from analysis.logs.step_log import LogError

WITHOUT_CONTROLS = bytes(code if code >= 0x20 else 0x20 for code in range(256))
"""Blanks for control characters: between values both are the same, within texts JSON has none."""
NOTHING = msgspec.Raw(b"null")


class Event(msgspec.Struct, gc=False):
    """An event: ``ts`` and ``dur`` in microseconds; names may have bytes that are no text, so they stay bytes."""

    ph: str = ""
    cat: str = ""
    ts: float | msgspec.UnsetType = msgspec.UNSET
    dur: float | msgspec.UnsetType = msgspec.UNSET
    name: msgspec.Raw = NOTHING

    @property
    def label(self) -> bytes:
        """Return its name as bytes."""
        return bytes(self.name).strip(b'"')


class Info(msgspec.Struct):
    """The job's facts that a trace states."""

    rank: int | str | None = None


class File(msgspec.Struct, rename={"events": "traceEvents", "about": "distributedInfo"}):
    """The whole file; some programs write the events alone."""

    events: list[Event] | None = None
    about: msgspec.Raw = NOTHING


@dataclass(frozen=True)
class Trace:
    """The events of a file, and its rank if it names one."""

    events: list[Event]
    rank: int | str | None


class NotATrace(LogError):
    """JSON, but no trace."""


_DECODER: msgspec.json.Decoder[File | list[Event]] = msgspec.json.Decoder(File | list[Event])
_INFO: msgspec.json.Decoder[Info | None] = msgspec.json.Decoder(Info | None)


def read_trace(path: Path) -> Trace:
    """Read a file.

    Raises:
        NotATrace: it has other content.
        LogError: it cannot be read, is damaged, or is too large.
    """
    try:
        file = _decode(path)
        about = _INFO.decode(file.about) if isinstance(file, File) else None
    except msgspec.ValidationError as error:
        wrong = LogError if "`$." in str(error) or "]." in str(error) else NotATrace  # the place of a field
        raise wrong(f"{path}: is no Chrome trace ({str(error).replace('`', '')})") from None
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise LogError(f"{path}: is no trace ({error}); copy or profile it again") from None
    except RecursionError:
        raise LogError(f"{path}: is no trace (too many brackets are open at once)") from None
    events = file.events if isinstance(file, File) else file
    if events is None or (isinstance(file, list) and not any(event.ph for event in events)):
        raise NotATrace(f"{path}: is no Chrome trace (it has no traceEvents)")
    return Trace(events, about.rank if about else None)


def _decode(path: Path) -> File | list[Event]:
    """Names may have control characters. Of an array the last bracket may be missing, as the format allows."""
    data = content(path)
    if data.count(b"{") > MOST_OBJECTS:
        raise LogError(
            f"{path}: has more than {MOST_OBJECTS:,} objects, the most that are read; profile fewer steps, or without "
            "stacks and shapes"
        )
    while True:
        try:
            return _DECODER.decode(data)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError as error:
            data = _mend(data, error)  # the text before is released: one of them takes up to half a gigabyte


def _mend(data: bytes, error: msgspec.DecodeError) -> bytes:
    """Return the possible meanings of the text; raise the error where nothing is known."""
    if "invalid character" in str(error) and (plain := data.translate(WITHOUT_CONTROLS)) != data:
        return plain
    end = data[-MEBI:].rstrip()
    if data[:100].lstrip()[:1] != b"[" or end.endswith(b"]"):
        raise error
    kept = max(0, len(data) - MEBI)
    return b"".join((memoryview(data)[:kept], end.rstrip(b","), b"]"))
