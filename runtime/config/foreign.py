"""The accepted parts of settings that somebody else has written, in a record or in a file of jobs.

Only this module decides it, for all commands. The caller's own command line and ``conf/`` may set anything.
Settings of others describe one job and no more: they name no code and no project, nothing of Hydra's own section
(launchers, callbacks, search paths, directories, the environment), no resolver (``${oc.env:X}`` reads the environment),
no configuration outside of the folders that are searched anyway, and no file outside of the working directory, the
caller's project and this software.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reading.errors import shown
from runtime.config import project
from runtime.config.checking import join, leaves
from runtime.config.instantiate import TARGET
from runtime.errors import ConfigError
from runtime.house import ROOT

HYDRA = "hydra"
NODE = re.compile(r"\$\{(\.*)([A-Za-z_][\w.]*)\}")
"""A reference to another setting, which reads nothing else."""
SELECTED = re.compile(r"\$\{oc\.select:(\.*)([A-Za-z_][\w.]*)(?:,\s*(?:null|None))?\}")
"""The same, where there may be no such setting; our own ``conf/`` has them."""
CHOICE = re.compile(r"(?!\.)[\w.+-]+(/(?!\.)[\w.+-]+)*")
MAX_HOPS = 8
"""Most references from one to the next."""
_NOTHING = object()


class Taken(NamedTuple):
    """Settings of a record: its job's settings, and the settings that are left out."""

    kept: list[str]
    ignored: list[str]


def taken_from_record(words: Any, start: Path) -> Taken:
    """Take the job's settings from a record's; its project and Hydra's own settings are left out.

    ``start``: the caller's working directory. Raises :class:`ConfigError` for what is not a list of settings, and for a
    setting that is not taken from others.
    """
    if not isinstance(words, list) or not all(isinstance(word, str | int | float) for word in words):
        raise ConfigError("is not a list of settings")
    lines = [str(word) for word in words]
    ignored = [line for line in lines if _root(line) in (HYDRA, project.SETTING)]
    kept = [line for line in lines if line not in ignored]
    for line in kept:
        refuse_foreign(line, start)
    return Taken(kept, ignored)


def refuse_foreign(line: str, start: Path) -> None:
    """Raise :class:`ConfigError` for a setting, written by somebody else, that does more than describe a job."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    from runtime.config.hydra_errors import REFUSALS

    label = shown(line, 200)
    try:
        override = OverridesParser.create().parse_override(line)
        value = None if override.is_delete() or override.is_sweep_override() else override.value()
        if not line.isprintable():  # codes that a terminal would obey
            raise ConfigError(line)
    except (*REFUSALS, RecursionError, ConfigError):
        raise ConfigError(f"{label}: is not a setting; write setting=value") from None
    if override.is_sweep_override():
        raise ConfigError(f"{label}: is several values, and a job has one")
    if _root(line) in (HYDRA, project.SETTING) or str(override.package or "").startswith(HYDRA):
        raise ConfigError(f"{label}: is not a setting of a job; give it on the command line")
    if TARGET in line:
        raise ConfigError(f"{label}: {TARGET} is not taken from others; name it in a file below conf/")
    refuse_resolvers(line, label)
    names = value if isinstance(value, list) else [value]
    if "." not in override.key_or_group and any(isinstance(name, str) and not _is_choice(name) for name in names):
        raise ConfigError(f"{label}: must be the name of a choice")
    for _, text in leaves(value):
        refuse_elsewhere(text, start, label)


def refuse_resolvers(text: str, label: str) -> None:
    """Raise :class:`ConfigError` for an interpolation that is no plain reference to another setting."""
    rest = NODE.sub(lambda found: "${" if found[2].partition(".")[0] == HYDRA else "", text)
    if "${" in rest:
        raise _report_unresolved(label)


def _report_unresolved(label: str) -> ConfigError:
    return ConfigError(f"{label}: resolves something else than a setting, which is not taken from others")


def refuse_elsewhere(value: Any, start: Path, label: str, beside: Path | None = None) -> None:
    """Raise :class:`ConfigError` if a text names a file outside of ``start``, the caller's project and this software.

    ``beside``: another folder that the caller has named. Links are followed. A name alone, or a relative path that
    stays inside, may be anything.
    """
    if not isinstance(value, str) or not value:
        return
    allowed = [place.resolve() for place in (start, ROOT, project.folder(), beside) if place is not None]
    try:
        place = (start / value).resolve()
        inside = not value.startswith("~") and any(place.is_relative_to(one) for one in allowed)
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, a loop of links
        inside = "/" not in value
    if not inside:
        raise ConfigError(
            f"{label}: names a file outside of the working directory, which is not taken from others; copy it here"
        )


def plain_section(tree: Any, name: str, start: Path) -> dict[str, Any]:
    """The section ``name`` of a composed configuration that a record holds, references resolved, as plain data.

    References may be to single values of the same configuration. Raises :class:`ConfigError` for anything else that
    would have to be resolved, for files elsewhere (see :func:`refuse_elsewhere`), and without such a section.
    """
    section = tree.get(name) if isinstance(tree, dict) else None
    if not isinstance(section, dict):
        raise ConfigError(f"{name}: is not there, so nothing can be built")

    def plain(value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return {str(key): plain(one, (*path, str(key))) for key, one in value.items()}
        if isinstance(value, list):
            return [plain(one, (*path, str(n))) for n, one in enumerate(value)]
        found = _resolve(tree, value, path)
        refuse_elsewhere(found, start, f"{join(*path)}={shown(found)}")
        return found

    return {str(key): plain(value, (name, str(key))) for key, value in section.items()}


def _resolve(tree: Mapping[str, Any], value: Any, path: Sequence[str]) -> Any:
    label = f"{join(*path)}={shown(value)}"
    for _ in range(MAX_HOPS):
        if not isinstance(value, str) or "${" not in value:
            return value
        found = NODE.fullmatch(value) or SELECTED.fullmatch(value)
        if found is None or found[2].partition(".")[0] == HYDRA:
            raise _report_unresolved(label)
        dots, names = len(found[1]), found[2].split(".")
        path = [*path[: max(len(path) - dots, 0)], *names] if dots else names
        value = _at(tree, path)
        if value is _NOTHING:
            if found.re is SELECTED:
                return None
            raise ConfigError(f"{label}: refers to {found[2]}, which is not set")
        if isinstance(value, dict | list):
            raise ConfigError(f"{label}: refers to a section; a record's references are to single values")
    raise ConfigError(f"{label}: refers to a reference to a reference, too many times")


def _at(tree: Any, path: Sequence[str]) -> Any:
    for name in path:
        tree = tree.get(name, _NOTHING) if isinstance(tree, dict) else _NOTHING
    return tree


def _is_choice(name: str) -> bool:
    return CHOICE.fullmatch(name) is not None or NODE.fullmatch(name) is not None


def _root(line: str) -> str:
    """The first name of a setting: ``hydra`` of ``++hydra.run.dir=X``, ``+hydra/launcher=Y`` and ``~hydra``."""
    found = re.match(r"[+~/\s]*(\w*)", line)
    return found[1] if found else ""
