"""A second cue next to colour: a marker on curves and a hatch on bars, so that no figure depends on colours alone.

Strategies of one cue have colours that stay apart under every common colour vision deficiency (a distance of at least
15 in CAM02-UCS); those that are compared most often have a cue each.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32


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
STRATEGIES_BY_CUE = (
    ("bsp", "dynamic_x", "optimus", "or_autoscale", "coding_group_based"),
    ("asp", "ddp", "static_x", "sync_switch_elastic"),
    ("ssp", "zeno_pp", "star_ahead", "first_k"),
    ("backup_workers", "composed", "lgc", "star_ml"),
    ("asp_even", "lb_bsp", "sync_switch", "coding_naive"),
    ("antdt_nd", "mlfabric", "star_h", "coding_fractional", "coding_cyclic", "lb_bsp_star"),
    ("lb_bsp_gpu", "antdt_nd_asp", "antdt_dd", "dlrover", "coding_heter_aware", "sync_switch_restart"),
)
"""In the order of :data:`CUES`."""
CUE_BY_STRATEGY = {name: cue for cue, names in zip(CUES, STRATEGIES_BY_CUE, strict=True) for name in names}


def cue_of(name: str) -> Cue:
    """The cue of a strategy; unknown names get a fixed one."""
    return CUE_BY_STRATEGY.get(name, CUES[crc32(name.encode()) % len(CUES)])
