"""Texts of other people in tables and pages: nothing in them is obeyed, and none is shown in another order."""

from __future__ import annotations

from analysis import markup
from analysis.reports.pages.document import document

EVIL = "host\x1b[2J\u202elanif\u2066\x85"
SHOWN = r"host\u001b[2J\u202elanif\u2066\u0085"


def test_tables_in_latex() -> None:
    (line,) = (line for line in markup.to_latex(["name"], [[EVIL]]).splitlines() if line.startswith("host"))
    assert line == SHOWN.replace("\\", r"\textbackslash{}") + r" \\"


def test_pages() -> None:
    page = document(EVIL, EVIL, f"<p>{EVIL}</p>")
    assert page.count(SHOWN) == 4
    assert not set(EVIL) - set("host[2Jlanif") & set(page)
