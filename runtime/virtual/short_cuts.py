"""Short cuts of the virtual engine, each of which measurements can switch off alone; results are the same without."""

from __future__ import annotations

import os

from runtime.errors import ConfigError

WITHOUT = "STRAGGLAB_WITHOUT"
"""Environment variable: names of short cuts, with commas between them, that are not taken."""
SHORT_CUTS = ("event_loop", "jumping")


def is_without(short_cut: str) -> bool:
    """Whether a short cut is switched off."""
    return short_cut in _named()


def refuse_unknown() -> None:
    """Raise :class:`ConfigError` if the variable names a short cut that does not exist."""
    if unknown := [name for name in _named() if name not in SHORT_CUTS]:
        raise ConfigError(f"{WITHOUT}={','.join(_named())}: {unknown[0]} is none of {', '.join(SHORT_CUTS)}")


def _named() -> list[str]:
    return [name for name in os.environ.get(WITHOUT, "").split(",") if name]
