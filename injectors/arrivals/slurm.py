"""Read the notations of Slurm's ``sacct`` (pure)."""

from __future__ import annotations

import re
from collections.abc import Sequence

JOB_IDS = ("JobID", "JobIDRaw")
"""Its columns with names of jobs."""
STEP = re.compile(r"(\d+(?:[_+]\d+)?)\.(?:batch|extern|interactive|\d+)")
ALL_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")
TYPE_OF_GPUS = re.compile(r"(?:^|,)gres/gpu:[^=,]+=(\d+)")
RESOURCES = re.compile(r"[a-z][^=,]*=[^=,]+(?:,[a-z][^=,]*=[^=,]+)*")


def steps(names: Sequence[object]) -> set[int]:
    """Places of names such as ``1000.batch``, of which ``1000`` is there as well: a step is a part of its job."""
    jobs = {str(name) for name in names}
    found = ((place, STEP.fullmatch(str(name))) for place, name in enumerate(names))
    return {place for place, step in found if step is not None and step[1] in jobs}


def gpus_in(cell: object) -> object:
    """The GPUs of a cell such as ``cpu=8,gres/gpu=4,node=1`` (its column AllocTRES); any other cell itself."""
    if not isinstance(cell, str) or RESOURCES.fullmatch(cell) is None:
        return cell
    return sum(int(each) for each in ALL_GPUS.findall(cell) or TYPE_OF_GPUS.findall(cell))
