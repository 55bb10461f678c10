"""Examples of a property that is expensive, or simple: fewer than others have, and more wherever others have more."""

from __future__ import annotations

from hypothesis import settings


def examples(of_fifty: int) -> settings:
    """So many where other properties have fifty, as every commit has."""
    return settings(max_examples=max(1, round(of_fifty * settings().max_examples / 50)))
