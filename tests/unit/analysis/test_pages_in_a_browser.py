"""Pages as one start of Chromium shows them: nothing scrolls sideways, texts have contrast, tables sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analysis.fitting.step_times import fit_steps
from analysis.logs.step_log import StepLog
from analysis.measures.ranking import Ranked
from analysis.measures.straggling import straggling
from analysis.reports.advice import Advice, page
from analysis.reports.remedies import REMEDIES
from analysis.reports.report import compare, finish_run
from tests.support.browser import PROGRAM, WHY_NOT, View, looked_at
from tests.support.records import asp_story, bsp_story

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=WHY_NOT)

ALWAYS = [View("run", 400, "dark"), View("run", 1000, "light"), View("sweep", 1000, "dark")]
ALWAYS.append(View("advice", 400, "light"))
"""What every commit looks at."""
LEAST_CONTRAST = 4.5
"""WCAG 2, level AA, of text."""


def advice_page() -> str:
    """Of a made-up log of 8 ranks, one of them slow, with every strategy ranked."""
    rng = np.random.default_rng(0)
    own_s = np.exp(0.01 * rng.standard_normal((40, 8)))
    own_s[:, 2] *= 3.0
    ranks = tuple(f"{rank}" for rank in range(8))
    log = StepLog("a_job's_log.csv", ranks, tuple(range(40)), own_s, round_s=own_s.max(axis=1) + 0.1)
    found = straggling(log, barrier=True, slow_frac=0.1)
    model = fit_steps(log, found.found, barrier=True, others=[], round_s=None)
    ranking = [Ranked(name, 0.4, 0.3, 0.5, 12.0, 1.5, 0.25, 0.01) for name in REMEDIES]
    advice = Advice(log=log, present="bsp", found=found, model=model, baseline_error=0.01, ranking=ranking)
    return page(advice, 0.1)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages; their pictures are blank."""
    folder = tmp_path_factory.mktemp("pages")
    runs = [tell(target=0.5).write(folder / tell.__name__) for tell in (bsp_story, asp_story)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("matplotlib.figure.Figure.savefig", lambda _, file, **__: file.write(b"\x89PNG\r\n\x1a\n"))
        for run in runs:
            finish_run(run)
        compare(runs, folder / "out")
    found = {"run": runs[0], "sweep": folder / "out"}
    return {name: (path / "report.html").read_text() for name, path in found.items()} | {"advice": advice_page()}


@pytest.fixture(scope="module")
def seen(pages: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[View, dict[str, Any]]:
    return looked_at(pages, ALWAYS, tmp_path_factory.mktemp("browser"))


def fits(found: dict[str, Any], view: View) -> None:
    """What holds of every page for every reader."""
    assert "error" not in found, found
    assert found["dark"] == (view.scheme == "dark")
    assert found["overflow"] <= 0
    assert found["overflow_unfolded"] <= 0, "with all columns and details, only boxes of tables scroll"
    assert all(table["overflow"] <= 0 for table in found["tables"]), "with the columns that are shown first"
    assert found["contrast"]["ratio"] >= LEAST_CONTRAST, found["contrast"]


@pytest.mark.parametrize("view", ALWAYS, ids=lambda view: "-".join(map(str, view)))
def test_a_page_fits_and_can_be_read(view: View, seen: dict[View, dict[str, Any]]) -> None:
    fits(seen[view], view)


def test_a_click_on_a_head_sorts(seen: dict[View, dict[str, Any]]) -> None:
    found = seen[View("sweep", 1000, "dark")]
    first, unfolded = found["tables"][0]["heads"], found["heads_unfolded"][0]
    assert 4 <= first < unfolded, "columns that do not fit are behind a switch"
    table = {one["head"]: one for one in found["sorted"][0]}
    times = table["JCT (s)"]
    assert times["said"] == [None, "ascending", "descending"]
    assert times["marked"] == 1, "only the last column that was sorted says so"
    values = [[float(text.split("[")[0]) for text in order] for order in times["orders"]]
    assert values[1] == sorted(values[0])
    assert values[2] == values[1][::-1] != values[1]
    target = table["TTA (s)"]["orders"][1]
    assert [text[0] for text in target] == ["0", "0", "\N{EM DASH}"] or target[-1][0] == "\N{EM DASH}", "missed: last"
    names = table["strategy"]["orders"]
    assert names[1] == sorted(names[0])


def test_figures_keep_their_colours_and_are_as_large_on_a_phone_as_they_were_drawn(
    seen: dict[View, dict[str, Any]],
) -> None:
    phone, wide = seen[View("run", 400, "dark")]["pictures"], seen[View("sweep", 1000, "dark")]["pictures"]
    assert len(phone) >= 2
    assert all(one["width"] == pytest.approx(6.4 * 96, abs=1) and one["scrolls"] for one in phone)
    assert wide
    assert not any(one["scrolls"] for one in wide)
    for one in (*phone, *wide):
        assert not any("invert" in text or "hue" in text for text in one["filters"])
