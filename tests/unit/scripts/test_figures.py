"""``run.py figures --paper``: the comparison in every format, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

from analysis.figures import several
from stragglab.commands import figures
from tests.support.records import bsp_story


@pytest.mark.long(like="test_figures_call_a_strategy_by_the_name_that_is_given")
@pytest.mark.painted
def test_figures_for_a_paper(tmp_path: Path) -> None:
    run = bsp_story().write(tmp_path / "runs" / "a")
    before = sorted(run.rglob("*"))
    assert figures.main([str(run), "--paper", "column", "--out", str(tmp_path / "out")]) == 0
    drawn = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    kinds = ("csv", "pdf", "png", "svg", "txt")
    assert drawn == {f"{name}.{kind}" for name in ("times", "time_spent", "convergence") for kind in kinds}
    assert [path for path in run.rglob("*") if path not in before and path.parent.name != "columns"] == []
    assert figures.main([str(run), "--paper", "3.5", "--caption", "--out", str(tmp_path / "said")]) == 0
    names = [tmp_path / name / "figures" / "times.png" for name in ("said", "out")]
    with Image.open(names[0]) as said, Image.open(names[1]) as bare:
        assert said.size[1] > bare.size[1], "the caption takes space"


@pytest.mark.painted
def test_figures_call_a_strategy_by_the_name_that_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its legend fits in a column: six phases need two rows there."""
    drawn: dict[str, Figure] = {}
    save = several.save

    def keep(figure: Figure, path: Path, shown: pd.DataFrame) -> Path:
        drawn[path.stem] = figure
        return save(figure, path, shown)

    monkeypatch.setattr(several, "save", keep)
    story = bsp_story()
    story.meta["job"]["strategy"] = "hers"
    run = story.write(tmp_path / "runs" / "a")
    words = [str(run), "--paper", "column", "--out", str(tmp_path / "out"), "--name", "hers=All wait"]
    assert figures.main(words) == 0
    page = drawn["time_spent"]
    assert [label.get_text() for label in page.axes[0].get_yticklabels()] == ["All wait"]
    page.draw_without_rendering()
    legend = page.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["compute", "data", "pull", "send", "injected", "wait"]
    assert legend.get_window_extent().x1 <= page.bbox.x1


def test_a_picture_that_fits_on_no_page_is_named(tmp_path: Path) -> None:
    """160 pixels are an inch: 9 in are a page, 9.1 are more; 7 in are as wide as the text."""
    high = "times.png: 9.1 in high, more than a page (9); name the runs of fewer cases"
    for size, said in (((532, 1440), ""), ((532, 1456), f"{high}, or take --paper text"), ((1120, 1456), high)):
        path = tmp_path / "times.png"
        Image.new("RGB", size).save(path)
        assert figures.too_high(path) == said
