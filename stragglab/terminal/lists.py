"""Lists and numbers on the command lines of these programs; invalid ones are refused in one line."""

from __future__ import annotations

from collections.abc import Collection

from runtime.errors import refuse


def names_of(flag: str, text: str, known: Collection[str]) -> list[str]:
    """Names from ``known``, without duplicates. Raises :class:`runtime.errors.ConfigError`."""
    found = _items(flag, text)
    for name in found:
        if name not in known:
            refuse(f"--{flag} {name}: unknown; there are {', '.join(known)}")
    return found


def numbers_of(flag: str, text: str, least: int = 0) -> list[int]:
    """Whole numbers, without duplicates. Raises :class:`runtime.errors.ConfigError`."""
    return list(dict.fromkeys(_number(flag, item, least) for item in _items(flag, text)))


def number_of(flag: str, text: str, least: int = 0) -> int:
    """One whole number. Raises :class:`runtime.errors.ConfigError`."""
    return _number(flag, text.strip(), least)


def _items(flag: str, text: str) -> list[str]:
    found = [item for part in text.split(",") if (item := part.strip())]
    if not found:
        refuse(f"--{flag} {text!r}: names none; give some, separated by commas")
    return list(dict.fromkeys(found))


def _number(flag: str, text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        refuse(f"--{flag} {text}: must be a whole number, {least} or more")
    return int(text)
