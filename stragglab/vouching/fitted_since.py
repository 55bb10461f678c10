"""Whether the files by which a recorded strategy predicted have other contents by now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from predictors.fitted_file import FITTED, known_as
from runtime.run.inputs import files_in


def is_refitted(names: Iterable[str], settings: Mapping[str, Any]) -> bool:
    """Whether a file was fitted again since a record was made, whose ``fitted`` are these names.

    It is one that the settings name, or one that comes along. Of a file that is gone nothing is known: False.
    """
    own = [*files_in(settings), *files_in(list(_find_assigned(settings)))]
    for name in names:
        stem = name.rpartition(" ")[0]
        there = [file for file in (*own, FITTED / f"{stem}.npz") if file.stem == stem and file.is_file()]
        if there and name not in {known_as(file, file.read_bytes()) for file in there}:
            return True
    return False


def _find_assigned(value: Any, key: str = "") -> Iterator[str]:
    """Return the settings assigned by ``setting=value`` texts in lists of ``settings``, as in entries of sets."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from _find_assigned(one, str(name))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _find_assigned(one, key)
    elif isinstance(value, str) and key == "settings":
        yield value.partition("=")[2]
