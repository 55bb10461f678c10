"""The order in which a pipeline's stages work (pure).

``gpipe``: all forward passes, then all backward passes (Huang et al., NeurIPS 2019). ``1f1b``: after a warm-up, one
forward and one backward pass in turn (Narayanan et al., SOSP 2019). ``interleaved``: the same with several chunks of
layers on each stage (Narayanan et al., SC 2021, section 2.2). ``zb``: the backward pass is split; gradients of weights
fill what would be bubbles (Qi et al., ICLR 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

One = TypeVar("One")
FORWARD, BACKWARD, WEIGHT = "forward", "backward", "weight"
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb")


class Pass(NamedTuple):
    """One pass of a micro-batch through a chunk of a stage's layers.

    ``backward`` computes all gradients; if the schedule splits it, only the gradients of activations, and ``weight``
    computes the gradients of weights.
    """

    kind: str
    micro_batch: int
    chunk: int = 0


def orders(schedule: str, stages: int, micro_batches: int, chunks: int = 1) -> list[list[Pass]]:
    """The passes of each stage, in their order.

    Args:
        schedule: one of ``SCHEDULES``.
        stages: of the pipeline.
        micro_batches: of one step.
        chunks: of layers on each stage; more than 1 only with ``interleaved``.

    Raises:
        ValueError: the schedule is unknown, or cannot be with these numbers; names the setting and the cure.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule={schedule}: must be {', '.join(SCHEDULES[:-1])} or {SCHEDULES[-1]}")
    for name, value in (("pipeline", stages), ("micro_batches", micro_batches), ("chunks", chunks)):
        if value < 1:
            raise ValueError(f"{name}={value}: must be 1 or more")
    if chunks > 1 and schedule != "interleaved":
        raise ValueError(f"chunks={chunks}: only schedule=interleaved has several; set chunks=1")
    if schedule == "interleaved" and micro_batches % stages:
        raise ValueError(
            f"micro_batches={micro_batches}: schedule=interleaved needs a multiple of pipeline={stages}, such as "
            f"{-(-micro_batches // stages) * stages}"
        )
    return [_order(schedule, stage, stages, micro_batches, chunks) for stage in range(stages)]


def _order(schedule: str, stage: int, stages: int, micro_batches: int, chunks: int) -> list[Pass]:
    forwards = [Pass(FORWARD, *one) for one in _turns(stages, micro_batches, chunks)]
    backwards = [Pass(BACKWARD, number, chunks - 1 - chunk) for _, number, chunk in forwards]
    ahead = stages - stage - 1
    match schedule:
        case "gpipe":
            return forwards + backwards
        case "1f1b":
            return alternate(forwards, backwards, ahead)
        case "interleaved":
            in_flight = len(forwards) if micro_batches == stages else 2 * ahead + (chunks - 1) * stages
            return alternate(forwards, backwards, in_flight if chunks > 1 else ahead)
    begun = alternate(forwards, backwards, 2 * ahead)
    return _with_weights(begun, [Pass(WEIGHT, number) for number in range(micro_batches)])


def _turns(stages: int, micro_batches: int, chunks: int) -> list[tuple[int, int]]:
    """(micro-batch, chunk) of a stage's forward passes: as many micro-batches as stages pass each chunk in turn."""
    if chunks == 1:
        return [(number, 0) for number in range(micro_batches)]
    return [
        (first + number, chunk)
        for first in range(0, micro_batches, stages)
        for chunk in range(chunks)
        for number in range(stages)
    ]


def alternate(forwards: Sequence[One], backwards: Sequence[One], ahead: int) -> list[One]:
    """``ahead`` forward passes, then forward and backward passes in turn, then the other backward passes."""
    ahead = min(ahead, len(forwards))
    paired = len(forwards) - ahead
    turns = [one for pair in zip(forwards[ahead:], backwards[:paired], strict=True) for one in pair]
    return [*forwards[:ahead], *turns, *backwards[paired:]]


def _with_weights(passes: list[Pass], weights: list[Pass]) -> list[Pass]:
    """After the last forward pass a weight pass follows each backward pass; the others are at the end."""
    last = max(place for place, one in enumerate(passes) if one.kind == FORWARD)
    tail = [one for one in passes[last + 1 :] if one.kind == BACKWARD]
    mixed = [one for pair in zip(tail, weights[: len(tail)], strict=True) for one in pair]
    return passes[: last + 1] + mixed + weights[len(tail) :]
