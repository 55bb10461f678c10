"""A plugin: a YAML text is parsed once, and everybody who reads it again gets a copy of what was found in it.

Tests compose some two thousand jobs of the same hundred files; a quarter of that time was that of PyYAML, written
in Python. What is parsed before a fork (:mod:`tests.support.cli`), the children know. Errors are not remembered.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import yaml

LONGEST = 100_000
"""Longer texts are read once anyway."""
_parse = yaml.load
_found: dict[tuple[str, str | bytes], Any] = {}


def load(stream: Any, Loader: Any) -> Any:
    """In the place of ``yaml.load``."""
    if isinstance(stream, str | bytes):
        return _load(stream, Loader)
    place = stream.tell()
    try:
        return _load(stream.read(), Loader)
    except (UnicodeDecodeError, yaml.YAMLError):  # once more, since messages name the file
        stream.seek(place)
        return _parse(stream, Loader)


def _load(text: str | bytes, Loader: Any) -> Any:
    if len(text) > LONGEST:
        return _parse(text, Loader)
    key = Loader.__name__, text
    if key not in _found:
        _found[key] = _parse(text, Loader)
    return deepcopy(_found[key])


def pytest_configure(config: pytest.Config) -> None:
    yaml.load = load


def pytest_unconfigure(config: pytest.Config) -> None:
    yaml.load = _parse
