"""The token that agents and driver share: a file that only its owner can read, or standard input.

It never stands in an argument or an environment variable, which other users of a machine can read.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from pathlib import Path

from reading import Unreadable
from reading.files import decoded, open_file
from runtime.errors import ConfigError

TOKEN_BYTES = 32
STDIN = "-"
NEW = "make one with python -m runtime.live.agent --new-token FILE"


def new_token(path: Path) -> None:
    """Write a new token; raises :class:`ConfigError` for a file that exists or cannot be written."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"--new-token {path}: {(error.strerror or str(error)).lower()}; name a new file") from None
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(TOKEN_BYTES) + "\n")


def read_token(name: str, setting: str) -> bytes:
    """The token in a file, or on standard input (``-``); ``setting`` names it in the :class:`ConfigError`."""
    if name == STDIN:
        return _parse(sys.stdin.readline(), setting, "standard input")
    try:
        with open_file(Path(name)) as file:
            mode = os.fstat(file.fileno()).st_mode
            text = decoded(file.read(4 * TOKEN_BYTES))
    except Unreadable as error:
        raise ConfigError(f"{setting}={name}: {error}; {NEW}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"{setting}={name}: others can read it (mode {stat.S_IMODE(mode):04o}); chmod 600 {name}")
    return _parse(text, setting, name)


def _parse(text: str, setting: str, where: str) -> bytes:
    try:
        token = bytes.fromhex(text.strip())
    except ValueError:
        token = b""
    if len(token) != TOKEN_BYTES:
        raise ConfigError(f"{setting}: {where} is not {2 * TOKEN_BYTES} hex digits; {NEW}")
    return token
