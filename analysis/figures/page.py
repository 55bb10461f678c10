"""A page for figures: the style, the caption below, and files (a picture in its formats, a CSV with its numbers)."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath

from analysis.figures.style import DPI, FAINT, STYLE, WIDTH_IN
from analysis.files import write_file

CAPTION_SIZE = 6.5
"""Font size of the caption."""
CHARACTERS_PER_IN = 22.0
KEY_IN = 0.42
"""Width of a legend's key with the space around it."""


@dataclass(frozen=True)
class Form:
    """How figures come out."""

    width_in: float = WIDTH_IN
    formats: tuple[str, ...] = ("png",)
    captioned: bool = False
    """Whether the caption is on the picture. It is always in the file, as metadata, and in a text file next to it."""


NARROW_IN = 4.5
"""On a page of less width there is room for one panel, and none next to it for a legend."""
_form: ContextVar[Form] = ContextVar("form", default=Form())  # noqa: B039 (frozen)


@contextmanager
def drawn_as(form: Form) -> Iterator[None]:
    """Draw figures in this form."""
    token = _form.set(form)
    try:
        yield
    finally:
        _form.reset(token)


def draw_captions(wanted: bool = True) -> AbstractContextManager[None]:
    """Draw figures in the present form, and with captions if they are ``wanted``."""
    return drawn_as(replace(_form.get(), captioned=_form.get().captioned or wanted))


def page_width_in() -> float:
    """Width of a page as figures are drawn now."""
    return _form.get().width_in


@contextmanager
def styled() -> Iterator[None]:
    """Use this project's style, whatever matplotlib's configuration."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)  # type: ignore[arg-type]  # its keys are typed as literals
        yield


def new_page(height_in: float, caption: str, width_in: float | None = None) -> Figure:
    """An empty figure with the caption below. ``height_in`` does not include the caption."""
    width_in, label = width_in or page_width_in(), caption
    caption = re.sub(r"(?<=\d) (?=[a-z])|(?<=[a-z]) (?=\d)", "\N{NO-BREAK SPACE}", caption)
    wrapped = textwrap.wrap(caption, int(width_in * CHARACTERS_PER_IN), break_on_hyphens=False)
    lines = wrapped if _form.get().captioned else []
    figure = Figure(figsize=(width_in, height_in + 0.13 * len(lines)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.set_label(label)
    # suplabels, unlike texts, are given space by the layout engine
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=CAPTION_SIZE, color=FAINT)
    return figure


def new_panels(height_in: float, caption: str, count: int, *, sharey: bool = True) -> tuple[Figure, list[Axes]]:
    """A page of ``count`` panels, each that high: in a row, or above one another where the page is narrow."""
    stacked = count if page_width_in() < NARROW_IN else 1
    page = new_page(height_in * stacked, caption)
    return page, list(page.subplots(stacked, count // stacked, squeeze=False, sharey=sharey).flat)


def new_grid(height_in: float, caption: str, count: int, most: int = 3) -> tuple[Figure, list[Axes]]:
    """A page of ``count`` panels, each that high, ``most`` in a row; above one another where the page is narrow."""
    columns = 1 if page_width_in() < NARROW_IN else min(most, count)
    rows = -(-count // columns)
    page = new_page(height_in * rows, caption)
    places = list(page.subplots(rows, columns, squeeze=False).flat)
    for axes in places[count:]:
        axes.remove()
    return page, places[:count]


def label_left(places: Iterable[Axes], label: str) -> None:
    """The label of the vertical axis, at every panel that has no other to its left."""
    for axes in places:
        if (place := axes.get_subplotspec()) is not None and place.is_first_col():
            axes.set_ylabel(label)


def legend_above(figure: Figure, keys: Sequence[Artist]) -> None:
    """A legend above all panels, in as many columns as fit."""
    labels = [str(key.get_label()) for key in keys]
    columns = next(count for count in range(len(labels) or 1, 0, -1) if count == 1 or _fit(labels, count, figure))
    figure.legend(handles=list(keys), loc="outside upper left", ncols=columns, columnspacing=1.3)


def _fit(labels: Sequence[str], columns: int, figure: Figure) -> bool:
    """Whether that many columns fit in the figure's width; Matplotlib fills one after another."""
    parts = np.array_split([_width_in(label) for label in labels], columns)
    return sum(KEY_IN + float(part.max()) for part in parts) <= figure.get_figwidth()


def _width_in(label: str) -> float:
    """Width of a label of a legend."""
    if not label.strip():
        return 0.0
    points = TextPath((0, 0), label, size=STYLE["legend.fontsize"]).get_extents().width
    return float(points / 72)


def save(figure: Figure, path: Path, shown: pd.DataFrame) -> Path:
    """Write the picture in each format, and ``shown`` as a CSV file next to it. Returns ``path``, the PNG.

    The caption is in the metadata of every file, and in a text file next to it.
    """
    form, caption = _form.get(), str(figure.get_label())
    for kind in form.formats:
        buffer = BytesIO()
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=_metadata(kind, caption))
        write_file(path.with_suffix(f".{kind}"), buffer.getvalue())
    return save_numbers(path, caption, shown)


def is_painted() -> bool:
    """Whether figures come out as pictures, too; without any format there are their numbers alone."""
    return bool(_form.get().formats)


def save_numbers(path: Path, caption: str, shown: pd.DataFrame) -> Path:
    """Return the path of the numbers that :func:`save` writes next to the picture ``path``."""
    write_file(path.with_suffix(".txt"), f"{caption}\n")
    write_file(path.with_suffix(".csv"), shown.to_csv(index=False))
    return path


def _metadata(kind: str, caption: str) -> dict[str, str | None]:
    """Return the metadata under each format's keys; without a date, so that equal figures are equal files."""
    names = {"png": ("Description", None), "pdf": ("Subject", "CreationDate"), "svg": ("Description", "Date")}
    about, date = names[kind]
    return {about: caption} | ({date: None} if date else {})
