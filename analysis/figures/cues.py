"""A second cue next to colour: a marker on curves and a hatch on bars, so that no figure depends on colours alone.

Strategies of one cue have colours that stay apart under every common colour vision deficiency (a distance of at least
15 in CAM02-UCS); those that are compared most often have a cue each.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from analysis.about import ABOUT


class Cue(NamedTuple):
    """A marker and a hatch of matplotlib's."""

    marker: str
    hatch: str


CUES = (
    Cue("o", ""),
    Cue("s", "////"),
    Cue("^", "...."),
    Cue("D", "xxxx"),
    Cue("v", "----"),
    Cue("P", "\\\\\\\\"),
    Cue("X", "||||"),
)
CUE_BY_MARKER = {cue.marker: cue for cue in CUES}
CUE_BY_STRATEGY = {"ddp": CUES[1]} | {name: CUE_BY_MARKER[one.marker] for name, one in ABOUT.items() if one.marker}


def cue_of(name: str) -> Cue:
    """The cue of a strategy; unknown names get a fixed one."""
    return CUE_BY_STRATEGY.get(name, CUES[crc32(name.encode()) % len(CUES)])
