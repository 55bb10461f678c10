"""Jobs written down one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import msgspec

from injectors.arrivals.base import Arrivals, Submission
from injectors.arrivals.cells import in_order
from injectors.arrivals.files import read_bytes
from injectors.patterns.fields import check_number
from reading import Unreadable
from reading.errors import shown
from reading.plain import MAX_YAML_BYTES, parse_yaml


@final
@dataclass(frozen=True, kw_only=True)
class Listed(Arrivals):
    """Every entry is a job, with the fields of :class:`injectors.arrivals.base.Submission`. Nothing is random.

    Attributes:
        entries: the jobs; needed are ``job``, ``submit_s`` and ``gpus``.
        path: of a YAML file with such a list, instead of ``entries``.
        time_scale: times of submission and durations are multiplied by it.
    """

    entries: tuple[Submission, ...] = ()
    path: str | None = None
    time_scale: float = 1.0

    def __post_init__(self) -> None:
        check_number("time_scale", self.time_scale, above=0)
        if bool(self.entries) == (self.path is not None):
            raise ValueError(f"path={self.path}: give either entries or the path of a file with them")

    @property
    def foreign(self) -> bool:
        return self.path is not None

    def submissions(self, seed: int) -> list[Submission]:
        """Raises ``ValueError`` naming the entry, from 0, and the field of what makes no sense."""
        where, entries = ("", self.entries) if self.path is None else (f"path={self.path}: ", _read(self.path))
        try:
            return in_order((f"entries[{n}]", self._scale(one)) for n, one in enumerate(entries))
        except ValueError as error:
            raise ValueError(f"{where}{error}") from None

    def _scale(self, one: Submission) -> Submission:
        lasts_s = None if one.duration_s is None else one.duration_s * self.time_scale
        return msgspec.structs.replace(one, submit_s=one.submit_s * self.time_scale, duration_s=lasts_s)


def _read(path: str) -> list[Submission]:
    """The entries of a file; raises ``ValueError`` naming it and what is wrong."""
    try:
        loaded = parse_yaml(read_bytes(path, MAX_YAML_BYTES))
    except Unreadable as error:
        raise ValueError(f"path={path}: {error}") from None
    for n, entry in enumerate(loaded if isinstance(loaded, list) else ()):
        for name in entry if isinstance(entry, dict) else ():
            if name not in Submission.__struct_fields__:
                known = ", ".join(Submission.__struct_fields__)
                raise ValueError(f"path={path}: entries[{n}], column {shown(name)}: no such field ({known})")
    try:
        return msgspec.convert(loaded, list[Submission])
    except msgspec.ValidationError as error:
        text = shown(str(error).replace("`", "").replace(" - at $[", "; entries["), 200)
        raise ValueError(f"path={path}: {text}") from None
