"""Texts that others have written, as they may be shown: in a terminal, a page or a LaTeX table."""

from __future__ import annotations

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F))
_CONTROLS += tuple(range(0x2066, 0x206A))
HARMLESS = {code: f"\\u{code:04x}" for code in _CONTROLS if chr(code) not in "\n\t"}
"""What a terminal would obey, and what would show a text in another order (Unicode's controls of direction), as it is
written in a program (and in JSON)."""


def harmless(text: str) -> str:
    """The text as it may be printed, whoever has written it: another machine, a file, a user."""
    return text if text.isascii() and text.isprintable() else text.translate(HARMLESS)
