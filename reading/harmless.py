"""Texts that others have written, as they may be shown: in a terminal, a page or a LaTeX table."""

from __future__ import annotations

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F))
_CONTROLS += tuple(range(0x2066, 0x206A))
HARMLESS = {code: f"\\u{code:04x}" for code in _CONTROLS if chr(code) not in "\n\t"}
"""Characters that control a terminal or the direction of text, with their escapes as in a program (and in JSON)."""


def harmless(text: str) -> str:
    """The text made safe to print, from any source: another machine, a file, a user."""
    return text if text.isascii() and text.isprintable() else text.translate(HARMLESS)
