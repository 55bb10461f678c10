"""Find lists and texts of the wrong shape where an experiment chooses names that its type cannot put in an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def misshapen(fields: Mapping[str, Any]) -> str:
    """The first part of that kind, with the cure; empty if there is none."""
    return next(_find(fields), "")


def _find(fields: Mapping[str, Any]) -> Iterator[str]:
    axes, figure = fields.get("axes"), fields.get("figure")
    for axis, levels in axes.items() if isinstance(axes, Mapping) else ():
        if not isinstance(levels, Mapping):
            yield f"axes.{axis}={levels}: must be levels by name, each with a list of settings"
            continue
        for level, settings in levels.items():
            if not isinstance(settings, list) or not all(isinstance(one, str) for one in settings):
                yield f"axes.{axis}.{level}={settings}: must be a list of settings, such as [strategy=ssp]"
    names = figure.get("names") if isinstance(figure, Mapping) else None
    for name, text in names.items() if isinstance(names, Mapping) else ():
        if not isinstance(text, str):
            yield f"figure.names.{name}={text}: must be text; put it in quotes"
