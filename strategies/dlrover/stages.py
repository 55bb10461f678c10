"""Stages of a job's resources, and the only ways from one to the next (DLRover section 4.2; pure)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Stage(StrEnum):
    """What a job's resources are changed for."""

    CREATE = "create"
    SAMPLE = "sample"
    OPTIMISE_SERVERS = "optimise servers"
    OPTIMISE_WORKERS = "optimise workers"
    ADJUST = "adjust"


class Step(StrEnum):
    """What ends a stage, or does not."""

    GRANTED = "granted"
    DENIED = "denied"
    PLANNED = "planned"
    KEPT = "kept"
    UNSUITABLE = "unsuitable"


MEANING: dict[Stage | Step, str] = {
    Stage.CREATE: "the first nodes start",
    Stage.SAMPLE: "one worker (after a hot start: those there are) shows what it and the servers use",
    Stage.OPTIMISE_SERVERS: "the planned servers take the parameters over",
    Stage.OPTIMISE_WORKERS: "what a worker uses with these servers is measured, then the others are added",
    Stage.ADJUST: "rules look for problems, every now and then",
    Step.GRANTED: "the change of this stage has been carried out",
    Step.DENIED: "it was not, and everything is as before",
    Step.PLANNED: "the plan wants other servers",
    Step.KEPT: "nothing has to change in this stage",
    Step.UNSUITABLE: "no plan fits what was measured",
}

TABLE: Mapping[Stage, Mapping[Step, Stage]] = {
    Stage.CREATE: {Step.GRANTED: Stage.SAMPLE, Step.DENIED: Stage.CREATE},
    Stage.SAMPLE: {
        Step.GRANTED: Stage.SAMPLE,
        Step.DENIED: Stage.SAMPLE,
        Step.PLANNED: Stage.OPTIMISE_SERVERS,
        Step.KEPT: Stage.OPTIMISE_WORKERS,
        Step.UNSUITABLE: Stage.ADJUST,
    },
    Stage.OPTIMISE_SERVERS: {Step.GRANTED: Stage.OPTIMISE_WORKERS, Step.DENIED: Stage.SAMPLE},
    Stage.OPTIMISE_WORKERS: {
        Step.GRANTED: Stage.ADJUST,
        Step.DENIED: Stage.ADJUST,
        Step.KEPT: Stage.ADJUST,
        Step.UNSUITABLE: Stage.ADJUST,
    },
    Stage.ADJUST: {Step.GRANTED: Stage.ADJUST, Step.DENIED: Stage.ADJUST},
}


def after(stage: Stage, step: Step) -> Stage:
    """The stage that follows.

    Raises:
        RuntimeError: none does; a mistake of whoever gave the step.
    """
    following = TABLE[stage].get(step)
    if following is None:
        raise RuntimeError(f"stage {stage}: {step} is impossible (possible: {', '.join(TABLE[stage])})")
    return following
