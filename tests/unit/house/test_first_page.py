"""The numbers on the first page are those of the pages that it sums up, which are generated; others are caught."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.support.runs import ROOT

CASES = re.compile(r"^- JCT \(job completion time\) within 5 %: (\d+) of (\d+) cases(.*)$", re.MULTILINE)
PAIRS = re.compile(
    r"^- pairs of strategies that JCT distinguishes live: (\d+) of (\d+) in the same order, (\d+) swapped", re.MULTILINE
)
CLAIMS = re.compile(
    r"^\| \*\*all\*\* \| \*\*(\d+)\*\* \| \*\*(\d+)\*\* \| \*\*(\d+)\*\* \| \*\*(\d+)\*\*", re.MULTILINE
)


def found(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    """The groups of the first match, which must be there."""
    match = pattern.search(text)
    assert match is not None, pattern.pattern
    return match.groups()


def sentences(fidelity: str, papers: str) -> Iterator[str]:
    """What the first page says by these two pages."""
    within, cases, others = found(CASES, fidelity)
    outside = "some are outside" if "; not " in others else "none is outside"
    yield f"Of {cases} cases, {within} completion times are within 5 % of the live ones beyond doubt, and {outside}"
    kept, pairs, swapped = found(PAIRS, fidelity)
    order = "none is swapped" if swapped == "0" else f"{swapped} are swapped"
    yield f"Of {pairs} pairs of strategies that live runs tell apart, {kept} are in the same order, {order}"
    claims, met, missed, inconclusive = found(CLAIMS, papers)
    yield f"Of {claims} claims of five papers, {met} are met, {missed} missed and {inconclusive} inconclusive"


def missing(first_page: str, fidelity: str, papers: str) -> list[str]:
    said = " ".join(first_page.split())
    return [one for one in sentences(fidelity, papers) if one not in said]


def test_the_first_page_says_what_the_others_found() -> None:
    pages = (ROOT / name for name in ("README.md", "docs/fidelity.md", "docs/paper/README.md"))
    assert missing(*(page.read_text() for page in pages)) == []


def test_other_numbers_are_caught() -> None:
    fidelity = (
        "- JCT (job completion time) within 5 %: 3 of 5 cases; not bsp under none (-9 %)\n"
        "- pairs of strategies that JCT distinguishes live: 7 of 9 in the same order, 1 swapped, 1 undecided\n"
    )
    papers = "| **all** | **9** | **4** | **3** | **2** |\n"
    page = (
        "Of 5 cases, 3 completion times are within 5 % of the live ones beyond doubt, and\nsome are outside. Of 9 "
        "pairs of strategies that live runs tell apart, 7 are in the same order, 1 are swapped. Of 9 claims of five "
        "papers, 4 are met, 3 missed and 2 inconclusive."
    )
    assert missing(page, fidelity, papers) == []
    assert len(missing(page.replace("1 are swapped", "none is swapped"), fidelity, papers)) == 1
    assert len(missing(page.replace("4 are met", "5 are met"), fidelity, papers)) == 1
    assert len(missing(page, fidelity.replace("; not", "; inconclusive"), papers)) == 1
