"""Pages in a headless Chromium: what it computes of them, at several widths, in light and in dark, in one start.

Every page is in a frame of its own (``srcdoc``, so a script may look into it), as wide as a screen would be. The
``color-scheme`` of a frame is what ``prefers-color-scheme`` means inside. Results come back as JSON in the dumped
document.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
WHY_NOT = "no Chromium here: install the package chromium to test how pages look"
FLAGS = ("--headless=new", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-extensions")
FLAGS += ("--no-sandbox",) if os.geteuid() == 0 else ()
VIEW_MS = 5000
"""For one view, of the browser's own clock, which does not wait."""
SCRIPT = Path(__file__).with_name("browser.js")


class View(NamedTuple):
    """One page as one reader sees it."""

    page: str
    width: int
    scheme: str


def looked_at(pages: Mapping[str, str], views: Sequence[View], folder: Path) -> dict[View, dict[str, Any]]:
    """What ``browser.js`` finds in each view of ``pages`` (HTML by name); ``folder`` is for the page that asks."""
    asked = json.dumps([{"html": pages[view.page], "width": view.width, "scheme": view.scheme} for view in views])
    text = (
        '<!DOCTYPE html><meta charset="utf-8"><pre id="found"></pre><script type="application/json" id="asked">'
        f"{asked.replace('<', chr(92) + 'u003c')}</script><script>{SCRIPT.read_text()}</script>"
    )
    (folder / "asking.html").write_text(text)
    budget = f"--virtual-time-budget={VIEW_MS * len(views)}"
    dumped = run_chromium(folder / "asking.html", "--window-size=1900,1200", budget, "--dump-dom")
    found = re.search(r'<pre id="found">(.*?)</pre>', dumped, re.DOTALL)
    assert found, dumped[-500:]
    assert found[1], "the script did not get to its end"
    return dict(zip(views, json.loads(unescape(found[1])), strict=True))


def run_chromium(page: Path, *flags: str) -> str:
    """What it prints; its profile is a directory next to the page."""
    assert PROGRAM is not None, WHY_NOT
    words = [PROGRAM, *FLAGS, f"--user-data-dir={page.parent / 'profile'}", *flags, page.resolve().as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout
