"""Every page spells out JCT, TTA and BPT where it first uses them; a page that does not is caught."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runs import ROOT

TERMS = {"JCT": "job completion time", "TTA": "time to accuracy", "BPT": "batch processing time"}
NEAR = 90
"""Characters behind a term within which its meaning may follow it."""
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
PAGES = ["README.md", "DESIGN.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def unexplained(text: str) -> Iterator[str]:
    """The terms whose first use comes before their meaning; code does not count."""
    prose = " ".join(CODE.sub("", text).split())
    for term, meaning in TERMS.items():
        if (first := re.search(rf"\b{term}s?\b", prose)) is None:
            continue
        if not re.search(meaning.replace("time", "times?"), prose[: first.end() + NEAR], re.IGNORECASE):
            yield term


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_its_terms_mean_where_it_first_uses_them(page: str) -> None:
    assert list(unexplained((ROOT / page).read_text())) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The JCT is long.", ["JCT"]),
        ("The job completion\ntime (JCT) is long. The JCT.", []),
        ("JCT (job completion time), TTA", ["TTA"]),
        ("JCTs " + "and other things that are said before the meaning is " * 2 + ": job completion time", ["JCT"]),
        ("Batch processing times: the BPT of `TTA`\n```\nJCT 3 s\n```", []),
    ],
)
def test_terms_without_a_meaning_are_found(text: str, found: list[str]) -> None:
    assert list(unexplained(text)) == found


def test_there_are_pages() -> None:
    assert Path("docs/fidelity.md").as_posix() in PAGES
    assert len(PAGES) > 50
