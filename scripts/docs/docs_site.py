"""Hook of mkdocs (``mkdocs.yml``): README, DESIGN and others become pages, and links become the site's.

The cards of methods are listed as their folders say (``about.toml``), here and in ``docs/methods/README.md``.

In the repository a link is relative to its file, so that it works wherever the repository is shown. A file that is not
a page, such as ``LICENSE``, keeps its words and loses its link.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from reading.about import FAMILIES, read_about

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"README.md": "index.md", "DESIGN.md": "DESIGN.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
PAGES |= {"CHANGELOG.md": "CHANGELOG.md"}
"""Files outside of ``docs/`` that are pages, and their places on the site."""
SHIM = "https://unpkg.com/iframe-worker/shim"
"""The theme would fetch this to search where pages are files; a copy is in ``docs/javascripts/``."""
ROLE = re.compile(r":(?:class|func|data|mod|meth|attr):(?=<code)")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


class Card(NamedTuple):
    """A page about one method, or about several that belong together."""

    title: str
    names: tuple[str, ...]
    """Names of its configurations."""
    family: str
    does: str
    changes: str = ""
    """How training differs, as the first configuration with such words says; likewise ``needs``."""
    needs: str = ""


def method_cards(strategies: Path = ROOT / "strategies", pages: Path = ROOT / "docs" / "methods") -> dict[str, Card]:
    """The cards in ``pages`` by file name, for all methods in ``strategies``; raises ``OSError`` for a missing one."""
    found: dict[str, Card] = {}
    for name, about in read_about(strategies).items():
        file = f"{about.card or name}.md"
        title = (pages / file).read_text().partition("\n")[0].removeprefix("# ").partition(":")[0]
        before = found.get(file, Card(title, (), "", ""))
        family, does = before.family or about.family, before.does or about.does
        changes, needs = before.changes or about.changes, before.needs or about.needs
        found[file] = Card(title, (*before.names, name), family, does, changes, needs)
    return found


def method_tables(cards: dict[str, Card]) -> Iterator[str]:
    """The lines of ``docs/methods/README.md`` that list the cards, by family."""
    for family, heading in FAMILIES.items():
        rows = [(file, card) for file, card in cards.items() if card.family == family]
        if rows:
            head = (
                "| `strategy` | which workers wait for which, and which compute what | in training | it needs | card |"
            )
            yield from ("", f"**{heading}**", "", head, "| --- | --- | --- | --- | --- |")
        for file, card in rows:
            names = ", ".join(f"`{name}`" for name in card.names)
            yield f"| {names} | {card.does} | {card.changes} | {card.needs} | [{card.title}]({file}) |"


def with_methods(nav: list[Any], cards: dict[str, Card]) -> list[Any]:
    """The navigation with all cards in its section about methods."""
    more = [{card.title: f"methods/{file}"} for file, card in sorted(cards.items())]
    return [{"Methods": [*entry["Methods"], *more]} if "Methods" in entry else entry for entry in nav]


def on_config(config: Any) -> Any:
    """Add the cards of methods to the navigation."""
    config["nav"] = with_methods(config["nav"], method_cards())
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in ``docs/``."""
    from mkdocs.structure.files import File

    for source, place in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with the links of the site."""
    return relink(markdown, page.file.src_uri)


def on_page_content(html: str, **_: Any) -> str:
    """The page without the roles of docstrings, which only Sphinx understands."""
    return ROLE.sub("", html)


def on_post_build(config: Any) -> None:
    """Let every page take the shim from the site."""
    site = Path(config.site_dir)
    for path in site.rglob("*.html"):
        up = posixpath.relpath(".", path.relative_to(site).parent.as_posix())
        text = path.read_text()
        if SHIM in text:
            path.write_text(text.replace(SHIM, posixpath.join(up, "javascripts/iframe-worker.js")))


def relink(markdown: str, place: str) -> str:
    """Markdown of the page at ``place`` of the site, its links relative to that."""
    source = next((name for name, there in PAGES.items() if there == place), f"docs/{place}")

    def change_link(found: re.Match[str]) -> str:
        mark, words, target = found.groups()
        path, hash_, anchor = target.partition("#")
        if not path or "://" in path:
            return found[0]
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        there = PAGES.get(meant) or (meant.removeprefix("docs/") if (ROOT / meant).is_file() else "")
        if meant == "docs/methods" or not there or (there == meant and meant not in PAGES):
            return words if not mark else found[0]
        return f"{mark}[{words}]({posixpath.relpath(there, posixpath.dirname(place) or '.')}{hash_}{anchor})"

    return LINK.sub(change_link, markdown)
