"""What a page of HTML refers to, by the standard library's parser: what it loads, where it leads, what it says."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

LOADING = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}
LOADING |= {"embed": "src", "video": "src", "audio": "src", "use": "href", "image": "href"}
"""Attributes by which an element loads something when the page is shown."""
STYLED = re.compile(r"url\(\s*['\"]?([^)'\"]*)|@import\s+['\"]?([^;'\"]*)")


VOID = ("meta", "input", "img", "br", "hr", "link", "source", "embed", "use", "image", "path")
"""Elements without an end, or whose end may be left out."""


class Reader(HTMLParser):
    """Collects addresses and texts; complains about an end that is not that of the last beginning."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag in LOADING and given.get(LOADING[tag]):
            self.loads.append(given[LOADING[tag]] or "")
        if tag == "a":
            self.links.append(given.get("href") or "")
        self.loads += [found[0] or found[1] for found in STYLED.findall(given.get("style") or "")]

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def loaded(page: str) -> list[str]:
    """Everything that a page loads and does not hold itself: in its elements, and in its styles."""
    styles = "".join(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
    found = Reader(page).loads + [one[0] or one[1] for one in STYLED.findall(styles)]
    return [address for address in found if not address.startswith("data:")]


def dead_links(page: Path) -> list[str]:
    """Links of a page to files or to parts of it that do not exist."""
    text = page.read_text()
    found = []
    for link in Reader(text).links:
        if link.startswith("#"):
            found += [link] * (f'id="{link[1:]}"' not in text)
        elif not link.startswith("https://"):
            found += [link] * (not (page.parent / unquote(link)).exists())
    return found
