"""A page for figures: the style, the caption below, and files (a PNG, and a CSV with its numbers)."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analysis.figures.style import DPI, FAINT, STYLE, WIDTH_IN
from analysis.files import write_file

CAPTION_SIZE = 6.5
CHARACTERS_PER_IN = 22.0
"""Font size of the caption."""


@contextmanager
def styled() -> Iterator[None]:
    """Use this project's style, whatever matplotlib's configuration."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)  # type: ignore[arg-type]  # its keys are typed as literals
        yield


def new_page(height_in: float, caption: str, width_in: float = WIDTH_IN) -> Figure:
    """An empty figure with the caption below. ``height_in`` does not include the caption."""
    caption = re.sub(r"(?<=\d) (?=[a-z])|(?<=[a-z]) (?=\d)", "\N{NO-BREAK SPACE}", caption)
    lines = textwrap.wrap(caption, int(width_in * CHARACTERS_PER_IN), break_on_hyphens=False)
    figure = Figure(figsize=(width_in, height_in + 0.13 * len(lines)), layout="constrained")
    FigureCanvasAgg(figure)
    # suplabels, unlike texts, are given space by the layout engine
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=CAPTION_SIZE, color=FAINT)
    return figure


def save(figure: Figure, path: Path, shown: pd.DataFrame) -> Path:
    """Write ``path`` (a PNG) and ``shown`` as a CSV file next to it. Returns ``path``."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    write_file(path.with_suffix(".csv"), shown.to_csv(index=False))
    return write_file(path, buffer.getvalue())
