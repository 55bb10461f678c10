"""The style of all figures: type, lines, and one colour per strategy name that is the same everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any
from zlib import crc32

from analysis.about import ABOUT
from analysis.figures.cues import CUES, cue_of

DPI = 160
WIDTH_IN = 6.4
"""Text width of a page."""

STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 8.5,
    "axes.labelsize": 8.5,
    "axes.titlesize": 9.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#444444",
    "axes.labelcolor": "#222222",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": False,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "text.color": "#222222",
    "text.parse_math": False,  # dollar signs in names are literal
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "xtick.labelcolor": "#222222",
    "ytick.labelcolor": "#222222",
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "lines.linewidth": 1.4,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,  # TrueType: what publishers ask for
}
INK, FAINT = "#222222", "#777777"

# Okabe and Ito's colours first, then Tol's "muted": both remain distinct under common colour vision deficiencies
PALETTE = (
    *("#0072B2", "#D55E00", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#1B9AAA", "#004C7A", "#332288", "#7A5BC7"),
    *("#88CCEE", "#117733", "#882255", "#999933", "#44AA99", "#CC6677", "#AA4499", "#6699CC"),
)
"""Colours of everything besides strategies, in this order."""
STRATEGY_COLOURS = {"ddp": "#004C7A"} | {name: one.colour for name, one in ABOUT.items() if one.colour}
SPARE = ("#882255", "#44AA99", "#999933", "#332288", "#AA4499", "#117733", "#CC6677", "#661100")
LINES = ("-", "--", "-.", ":")
ALIKE: Mapping[str, str] = {}
"""Looks of levels whose names are strategies: none differs."""
PAPER_COLOUR = "#B00020"
"""Colour of a paper's numbers."""

PHASE_COLOURS = {
    "wait": "#dcdcdc",
    "pull": "#56B4E9",
    "data": "#7b68a6",
    "compute": "#3f78a8",
    "injected": "#D55E00",
    "send": "#e8b33c",
}
"""Phases of an iteration in temporal order; the timeline draws ``data`` as part of ``compute``."""
PLAN_COLOUR = "#D55E00"


@dataclass(frozen=True)
class Look:
    """How one strategy is drawn."""

    colour: str
    line: str = "-"
    marker: str = ""
    hatch: str = ""


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """A look for every label. Colour, marker and hatch depend only on the strategy's name.

    Its variants get other line styles.
    """
    found: dict[str, Look] = {}
    for label in dict.fromkeys(labels):
        colour = colour_of(label)
        same = sum(look.colour == colour for look in found.values())
        found[label] = Look(colour, LINES[same % len(LINES)], *cue_of(label.split(" ", 1)[0]))
    return found


def colour_of(label: str) -> str:
    """The colour of a strategy; its name is the first word of the label. Unknown names get a fixed spare colour."""
    name = label.split(" ", 1)[0]
    return STRATEGY_COLOURS.get(name, SPARE[crc32(name.encode()) % len(SPARE)])


def level_looks(levels: Iterable[str], like: Mapping[str, str] = ALIKE) -> dict[str, Look]:
    """Looks of an experiment's levels: strategies by their names, others with colours in order.

    ``like`` names the strategy of a level whose name is another: it looks like that strategy does everywhere.
    """
    names = list(dict.fromkeys(levels))
    strategies = [like.get(name, name) for name in names]
    if any(name in STRATEGY_COLOURS for name in strategies):
        found = looks(strategies)
        return {name: found[strategy] for name, strategy in zip(names, strategies, strict=True)}
    return {
        name: Look(PALETTE[index % len(PALETTE)], "-", *CUES[index % len(CUES)]) for index, name in enumerate(names)
    }


def error_reach(errors: Iterable[float], tolerance_frac: float) -> float:
    """Limit of an axis of errors: not so small that noise looks large, nor so large that the band is hard to see."""
    finite = [1.15 * abs(error) for error in errors if isfinite(error)]
    return min(max([2 * tolerance_frac, *finite]), 6 * tolerance_frac)
