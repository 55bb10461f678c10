"""The choices of every group: its files with a line about each, which is how its first comment begins."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from omegaconf import DictConfig, OmegaConf

WIDTH = 98
"""Most characters of a line about a choice; a longer sentence ends at a clause."""
SHORTEST = 24
"""Characters that a clause must have to be the whole line."""
GROUPS = {
    "strategy": "which workers wait for which, and which compute what",
    "straggler": "what slows tasks down",
    "workload": "what is trained",
    "runtime": "real processes, or a virtual clock",
    "cluster": "the machines on which the job runs, as data",
    "topology": "where the parameters are",
    "backend": "the framework that computes gradients",
    "scheduler": "how long a node that a strategy restarts is pending",
    "launcher": "where the processes of runtime=live start",
    "jobs": "a set of jobs that share hosts, instead of one job",
    "policy": "which jobs of a set start, and when",
    "placement": "on which hosts they start",
    "prevention": "what a job may take from its neighbours",
}
"""Groups in the order of the help, and what each decides."""
NO_GROUPS = ("experiment", "hydra")
"""Folders of ``conf/`` that are not chosen from: descriptions of many runs, and Hydra's own."""


class Choice(NamedTuple):
    """One file of a group."""

    name: str
    line: str
    path: Path | None = None


def headline(text: str) -> str:
    """The first sentence of a YAML file's first comment, without remarks in parentheses; empty if it has none."""
    words: list[str] = []
    for line in text.splitlines():
        if line.startswith("# @package") or not (words or line.strip()):
            continue
        if not line.startswith("#"):
            break
        words.append(line.lstrip("#").strip())
    return sentence(" ".join(words))


def sentence(text: str) -> str:
    """The first sentence of prose, without remarks in parentheses, cut at a clause if it is long."""
    text, before = " ".join(text.replace("``", "").split()), ""
    while text != before:
        text, before = re.sub(r"\s*\([^()]*\)", "", text), text
    end = re.search(r"\.(?=\s+\S|$)", text)
    text = text[: end.start()] if end else text
    if len(text) <= WIDTH:
        return text
    clauses = [found.start() for found in re.finditer(r"[,;:] ", text) if SHORTEST <= found.start() <= WIDTH - 4]
    return f"{text[: clauses[-1]]} ..." if clauses else textwrap.shorten(text, WIDTH, placeholder=" ...")


def read_choices(group: str, names: Iterable[str], folders: Sequence[Path]) -> list[Choice]:
    """The choices of a group; ``folders`` are searched in order, as Hydra does."""
    return list(_choices(group, names, folders))


def _choices(group: str, names: Iterable[str], folders: Sequence[Path]) -> Iterator[Choice]:
    for name in names:
        places = [folder / group / f"{name}.yaml" for folder in folders]
        path = next((place for place in places if place.is_file()), None)
        yield Choice(name, "" if path is None else headline(path.read_text("utf-8", "replace")), path)


def merged(name: str, folders: Sequence[Path]) -> DictConfig:
    """The file of a choice, with those that its ``defaults`` name, each from the first folder that has it."""
    own = cast(DictConfig, OmegaConf.load(next(path for one in folders if (path := one / f"{name}.yaml").is_file())))
    found = OmegaConf.create()
    for part in own.pop("defaults", None) or ["_self_"]:
        found = cast(DictConfig, OmegaConf.merge(found, own if part == "_self_" else merged(part, folders)))
    return found


def ordered(groups: Iterable[str]) -> list[str]:
    """Groups to choose from: ours in their order, then a user's own."""
    known = set(groups).difference(NO_GROUPS)
    return [*(name for name in GROUPS if name in known), *sorted(known.difference(GROUPS))]


def format_group(
    group: str, choices: Sequence[Choice], chosen: str | None = None, refused: Mapping[str, str] | None = None
) -> list[str]:
    """Lines about a group, in aligned columns.

    ``*`` marks the chosen one, ``-`` one that is refused; the reasons are below, each with its choices.
    """
    refused, about = refused or {}, GROUPS.get(group, "")
    width = max((len(choice.name) for choice in choices), default=0)
    lines = [f"{group}: {about}" if about else group]
    for choice in choices:
        mark = "*" if choice.name == chosen else "-" if choice.name in refused else " "
        lines.append(f"{mark} {choice.name:{width}}  {choice.line}".rstrip())
    for reason in dict.fromkeys(refused.values()):
        names = ", ".join(name for name, why in refused.items() if why == reason)
        lines += textwrap.wrap(f"- {names}: not here. {reason}", 118, initial_indent="  ", subsequent_indent="    ")
    return lines
