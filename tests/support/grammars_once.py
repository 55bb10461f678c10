"""A plugin: a setting and an interpolation are parsed once, by Hydra's and OmegaConf's own grammars.

Both are read by parsers written in Python, a third of the time of composing a job, and tests compose the same few
hundred settings again and again. Errors are not remembered.
"""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from typing import Any

import omegaconf._utils
import omegaconf.base
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf.grammar_parser import parse

LONGEST = 1_000
"""Longer texts are read once anyway."""
_of_hydra = OverridesParser.parse_rule
_settings: dict[tuple[str, str], Any] = {}
_parsed = lru_cache(maxsize=10_000)(parse)


def parse_rule(parser: OverridesParser, text: str, rule: str) -> Any:
    """In the place of Hydra's; whoever gets an override may change it."""
    key = text, rule
    if key not in _settings:
        found = _of_hydra(parser, text, rule)
        if len(text) > LONGEST:
            return found
        _settings[key] = found
    return deepcopy(_settings[key])


def pytest_configure(config: pytest.Config) -> None:
    for module in (omegaconf.base, omegaconf._utils):
        module.parse = _parsed  # type: ignore[attr-defined]
    OverridesParser.parse_rule = parse_rule  # type: ignore[method-assign]


def pytest_unconfigure(config: pytest.Config) -> None:
    for module in (omegaconf.base, omegaconf._utils):
        module.parse = parse  # type: ignore[attr-defined]
    OverridesParser.parse_rule = _of_hydra  # type: ignore[method-assign]
