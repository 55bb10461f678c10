"""The pages on which the claims of a paper are answered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

PAGES = Path(__file__).with_name("pages.toml")


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The page ``docs/paper/<name>.md``, its title, and what it says before its sections."""

    name: str
    title: str
    intro: str


@cache
def load_pages(path: Path = PAGES) -> Mapping[str, Page]:
    """Return the pages by the name of their ledger, in the order of the file.

    Raises:
        msgspec.ValidationError: an entry that is not well formed.
    """
    return msgspec.toml.decode(path.read_bytes(), type=dict[str, Page])
