"""How a run was started, from Hydra's files in its directory (``.hydra/``), if Hydra started it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec

from reading import Unreadable
from reading.files import MIB, read_text
from reading.plain import parse_yaml

CONFIG, OVERRIDES = ".hydra/config.yaml", ".hydra/overrides.yaml"
META = "meta.json"
NOTE, MULTIRUN = "sweep.jsonl", "multirun.yaml"
"""Files that mark a directory as a sweep's: our own note, and Hydra's."""
PROGRAM = "python run.py"
MAX_BYTES = 64 * MIB


def settings_text(run: Path) -> str:
    """The composed configuration as YAML; empty if there is none."""
    return _text(run / CONFIG)


def command_of(run: Path) -> str:
    """The command line that repeats a run; empty if it was not started by one."""
    words = _parse(_text(run / OVERRIDES))
    return _command(_project(run), words) if isinstance(words, list) else ""


def sweep_of(run: Path) -> Path | None:
    """The directory of the sweep that a run is part of."""
    folder = run.resolve().parent
    return folder if (folder / NOTE).exists() or (folder / MULTIRUN).exists() else None


def sweep_command(sweep: Path) -> str:
    """The command line of a sweep; empty if it has no note of it (another launcher of Hydra's started it)."""
    head = _text(sweep / NOTE).partition("\n")[0]
    try:
        settings = msgspec.json.decode(head)["settings"] if head else None
    except (msgspec.DecodeError, KeyError, RecursionError, TypeError):
        return ""
    first = next(iter(sorted(sweep.glob(f"*/{META}"))), sweep / META)
    return _command([*_project(first.parent), "-m"], settings) if isinstance(settings, list) else ""


def wants_caption(run: Path) -> bool:
    """Whether the run's settings ask for captions on its pictures (``caption=true``)."""
    settings = _parse(settings_text(run))
    return isinstance(settings, dict) and settings.get("caption") is True


def _project(run: Path) -> list[str]:
    """The setting that names the user's project, which is not one of the job's: the folder's name, wherever it is."""
    try:
        named = msgspec.json.decode(_text(run / META))["versions"]["project"]
    except (msgspec.DecodeError, KeyError, RecursionError, TypeError):
        return []
    return [shlex.quote(f"project={str(named).rpartition(' ')[0]}")]


def _command(flags: list[str], settings: list[Any]) -> str:
    return " ".join([PROGRAM, *flags, *(shlex.quote(f"{setting}") for setting in settings)])


def _text(path: Path) -> str:
    """The file's text; empty if it cannot be read: a page is made all the same."""
    try:
        return read_text(path, MAX_BYTES)
    except Unreadable:
        return ""


def _parse(text: str) -> Any:
    try:
        return parse_yaml(text.encode())
    except Unreadable:
        return None
