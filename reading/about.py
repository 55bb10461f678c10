"""A folder's facts about its strategies for figures and lists: its ``about.toml``, a section per configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from reading.errors import Unreadable
from reading.files import read_text

FILE = "about.toml"
MOST_BYTES = 100_000
LAST = 1_000
"""The place of a folder that names none."""


FAMILIES = {
    "synchronous": "All wait, or all but a few",
    "asynchronous": "Nobody waits, or not for long",
    "balanced": "Work is divided by speed, slow nodes are restarted",
    "switching": "The mode of synchronisation changes",
    "elastic": "The number of nodes changes while a job trains",
    "composed": "Parts of several",
}
"""The tables of the list of methods, in their order."""


class About(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A strategy in words and looks. Without ``not_advised`` it is a candidate of ``advise``."""

    name: str
    """In figures and pages."""
    colour: Annotated[str, Meta(pattern="^#[0-9A-Fa-f]{6}$")] | None = None
    """None: one of the spare colours."""
    marker: Literal["o", "s", "^", "D", "v", "P", "X"] | None = None
    """The second cue next to colour, with the hatch that belongs to it (``analysis/figures/cues.py``)."""
    card: str = ""
    """The page about it, without ``.md``; empty: it has the name of the configuration."""
    family: Literal["", "synchronous", "asynchronous", "balanced", "switching", "elastic", "composed"] = ""
    """The table of the list of methods; configurations with the card of another need none."""
    does: str = ""
    """Its words there: which workers wait for which, and what each computes."""
    changes: str = ""
    """In training, compared with plain synchronous steps."""
    needs: str = ""
    """Requirements on the job or the cluster."""
    not_advised: str = ""
    """Why ``advise`` does not time it."""
    asynchronous: bool = False
    """In its logs no worker waits for all others."""
    monitors: bool = False
    """Its decisions depend on measured times."""
    on_replicas: bool = False
    """It needs replicas, so comparisons on parameter servers leave it out."""
    resizes: bool = False
    """It changes the number of nodes."""

    def __post_init__(self) -> None:
        if not self.not_advised and not (self.changes and self.needs):
            raise ValueError("write changes and needs, or why it is not_advised")


def read_about(folder: Path) -> dict[str, About]:
    """Read all folders in ``folder``, by the name of the configuration, in the order of their ``place``.

    Raises :class:`Unreadable` with the file, for unknown keys, missing keys and values that are no texts.
    """
    found = sorted((_read(path) for path in sorted(folder.glob(f"*/{FILE}"))), key=lambda one: one[0])
    return {name: one for _, sections in found for name, one in sections.items()}


def _read(path: Path) -> tuple[int, dict[str, About]]:
    try:
        sections: dict[str, Any] = msgspec.toml.decode(read_text(path, MOST_BYTES))
        place = msgspec.convert(sections.pop("place", LAST), int)
        return place, msgspec.convert(sections, dict[str, About])
    except (msgspec.MsgspecError, Unreadable, ValueError) as error:
        raise Unreadable(f"{path}: {error}") from None
