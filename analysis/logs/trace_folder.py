"""Traces as profilers leave them: files of one rank each, in one folder or in one for every profiled cycle."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

from analysis.files import natural
from analysis.logs.limits import MOST_FILES
from analysis.logs.step_log import LogError
from reading.unpacked import plain_name

RANK = re.compile(r"(?:rank|worker)[_-]?(\d{1,9})", re.IGNORECASE)
NUMBER = re.compile(r"\d++")


def is_trace(path: Path) -> bool:
    """Whether the file is named like a trace."""
    return plain_name(path).endswith(".json")


def traces_in(folder: Path) -> tuple[list[Path], list[Path]]:
    """(traces of a folder, traces of its folders): profilers leave a folder per profiled iteration (``iteration_10/``).

    Raises:
        LogError: there are too many.
    """
    here = [path for path in folder.iterdir() if is_trace(path) and path.is_file()]
    below = [path for path in folder.glob("*/*") if is_trace(path) and path.is_file()]
    if (found := max(len(here), len(below))) > MOST_FILES:
        raise LogError(f"{folder}: has {found:,} traces; name a folder of {MOST_FILES:,} at most")
    return here, below


def cycles(paths: Sequence[Path]) -> list[list[Path]]:
    """The files of every folder; folders and files in natural order."""
    ordered = sorted(paths, key=lambda path: natural(str(path)))
    ordered.sort(key=lambda path: natural(str(path.parent)))
    return [list(folder) for _, folder in groupby(ordered, key=lambda path: path.parent)]


def ranks_by_name(folder: Sequence[Path], named: Callable[[Path], str] = plain_name) -> dict[Path, str]:
    """Return each file's rank from its name: the number after a word for ranks, or the first by which all names differ.

    ``named`` tells the name. Names are compared that are alike but for their numbers: other files may lie next to the
    traces.
    """
    alike: dict[str, list[Path]] = defaultdict(list)
    for path in folder:
        alike[NUMBER.sub("0", named(path))].append(path)
    found: dict[Path, str] = {}
    for paths in alike.values():
        for name in (lambda path: named(path).split(".")[0], named):  # times of writing differ, too
            if numbers := _differing(paths, name):
                found |= numbers
                break
    found |= {path: said[1] for path in folder if (said := RANK.search(named(path)))}
    return {path: number[-18:].lstrip("0") or "0" for path, number in found.items()}


def _differing(paths: Sequence[Path], name: Callable[[Path], str]) -> dict[Path, str]:
    """The first number that differs between all names; of a single one the last."""
    numbers = {path: NUMBER.findall(name(path)) for path in paths}
    places = range(min(map(len, numbers.values())))
    differing = [place for place in places if len({each[place] for each in numbers.values()}) == len(numbers)]
    if not differing:
        return {}
    place = differing[0] if len(numbers) > 1 else -1
    return {path: each[place] for path, each in numbers.items()}
