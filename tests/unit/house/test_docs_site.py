"""The site of docs/: every page is in its navigation, every relative link leads somewhere, and no warning is left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from scripts.docs.docs_site import LINK, PAGES, method_cards, relink, with_methods
from tests.support.runs import ROOT

DOCS = ROOT / "docs"
MOST_WITHOUT = 1
"""Pages that do not begin with the question that they answer."""
SOURCES = [*(ROOT / name for name in PAGES), *sorted(DOCS.rglob("*.md"))]


def anchors(text: str) -> set[str]:
    """Anchors of the headings, as renderers of Markdown make them."""
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def dead_links(path: Path, text: str) -> list[str]:
    """Relative links of a page that lead nowhere."""
    return [target for _, _, target in LINK.findall(text) if "://" not in target and not leads(path, target, text)]


def leads(path: Path, target: str, text: str) -> bool:
    name, _, anchor = target.partition("#")
    file = path.parent / name if name else path
    if not file.exists():
        return False
    return not anchor or anchor in anchors(file.read_text() if name else text)


def pages(nav: object) -> Iterator[str]:
    """Paths in a navigation."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict | list):
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from pages(part)


def test_every_relative_link_leads_somewhere() -> None:
    dead = {str(path.relative_to(ROOT)): dead_links(path, path.read_text()) for path in SOURCES}
    assert {page: links for page, links in dead.items() if links} == {}
    text = "# A head\n[a](first_steps.md) [b](#a-head) [c](https://a.b/c) [d](gone.md) [e](#gone)"
    assert dead_links(DOCS / "data.md", text) == ["gone.md", "#gone"]


def test_every_page_is_in_the_navigation_once() -> None:
    nav = re.search(r"^nav:\n(?:[ -].*\n)+", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert nav is not None
    listed = list(pages(with_methods(yaml.safe_load(nav[0])["nav"], method_cards())))
    own = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted([*own, *PAGES.values()])


def test_links_are_those_of_the_site() -> None:
    ours = "[a](docs/data.md#x) [b](LICENSE) ![c](docs/images/report.png)"
    assert relink(ours, "index.md") == "[a](data.md#x) b ![c](images/report.png)"
    ours = "[a](ssp.md) [b](../../DESIGN.md) [c](../virtual.md)"
    assert relink(ours, "methods/bsp.md") == "[a](ssp.md) [b](../DESIGN.md) [c](../virtual.md)"
    ours = "[a](https://a.b) [b](#c) [d](../README.md)"
    assert relink(ours, "virtual.md") == "[a](https://a.b) [b](#c) [d](index.md)"


def test_a_page_begins_with_the_question_that_it_answers() -> None:
    lacking = [path.name for path in SOURCES if "?" not in "".join(path.read_text().split("\n\n")[:2])]
    assert len(lacking) <= MOST_WITHOUT, lacking


def test_the_api_page_has_all_names_that_are_listed() -> None:
    from stragglab import PLACES

    page = (DOCS / "api.md").read_text()
    assert [name for name in PLACES if f".{name}\n" not in page] == []


@pytest.mark.long(like="test_every_relative_link_leads_somewhere")
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not installed: pip install '.[docs]'")
def test_it_is_built_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    fetched = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?(https?:[^\" >]*)")
    found = {url for path in tmp_path.rglob("*.html") for url in fetched.findall(path.read_text())}
    assert found == set()
    assert len(json.loads((tmp_path / "search" / "search_index.json").read_text())["docs"]) > 200


@pytest.mark.long(like="test_every_relative_link_leads_somewhere")
@pytest.mark.skipif(
    find_spec("nbclient") is None or find_spec("ipykernel") is None, reason="needs nbclient and ipykernel"
)
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("MPLBACKEND", "agg")
    book = nbformat.read(DOCS / "notebooks" / "first_steps.ipynb", as_version=4)
    NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    shown = [output.get("data", {}).get("text/plain", "") for cell in book.cells for output in cell.get("outputs", [])]
    assert any("JCT relative to BSP" in text and "backup_workers" in text for text in shown)
