"""A schedule of transfers from what each rank of a traced sum sends and receives (pure).

Traces name no parts of the vector. So a rank that has received anything passes on what it received last, and begins
with a part of its own. If that makes no sum, the trace is refused.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import msgspec

from runtime.core.collectives.schedule import Schedule, Transfer


class Step(NamedTuple):
    """A rank sends a message, or receives one."""

    sends: bool
    peer: int
    tag: int
    num_bytes: int
    adds: bool = False
    """Whether it computes with what it has received."""


class _Message(msgspec.Struct):
    """One that is sent."""

    source: int
    target: int
    adds: bool = False
    before: list[int] = []
    """Messages that its source sends or receives before, and that its target receives before: the last of each."""
    passed_on: int | None = None
    """The message that its source received last; None: none."""


def schedule_of_traces(ranks: Sequence[Sequence[Step]]) -> Schedule:
    """The schedule of a sum of which every rank has carried out these steps, one after another.

    Raises:
        ValueError: it is no sum, or its parts are not known; the reason is one line.
    """
    sizes = {step.num_bytes for steps in ranks for step in steps}
    if len(sizes) > 1:
        raise ValueError(f"has messages of {min(sizes):,} to {max(sizes):,} bytes; parts are known where all are equal")
    messages = list[_Message]()
    sent: list[list[int]] = [[] for _ in ranks]
    waiting: defaultdict[tuple[int, int, int], deque[int]] = defaultdict(deque)
    for rank, steps in enumerate(ranks):
        for step in steps:
            if not 0 <= step.peer < len(ranks):
                raise ValueError(f"rank {rank} has a message with rank {step.peer}, of which there is no trace")
            if step.sends:
                waiting[rank, step.peer, step.tag].append(len(messages))
                sent[rank].append(len(messages))
                messages.append(_Message(rank, step.peer))
    for rank, steps in enumerate(ranks):
        _order(rank, steps, messages, deque(sent[rank]), waiting)
    if left := [key for key, numbers in waiting.items() if numbers]:
        raise ValueError(f"rank {left[0][1]} does not receive a message that rank {left[0][0]} sends")
    return _made(len(ranks), messages)


def _order(
    rank: int,
    steps: Sequence[Step],
    messages: list[_Message],
    sent: deque[int],
    waiting: dict[tuple[int, int, int], deque[int]],
) -> None:
    """Match what a rank receives with what others have sent, and note what comes before what."""
    last_sent: int | None = None
    received: int | None = None
    for step in steps:
        if step.sends:
            number = sent.popleft()
            messages[number].passed_on = received
            messages[number].before += [one for one in (last_sent, received) if one is not None]
            last_sent = number
        else:
            come = waiting[step.peer, rank, step.tag]
            if not come:
                raise ValueError(f"rank {rank} receives a message that rank {step.peer} does not send")
            number = come.popleft()
            messages[number].adds = step.adds
            messages[number].before += [] if received is None else [received]
            received = number


def _made(size: int, messages: Sequence[_Message]) -> Schedule:
    """Each message in the round after those that come before it, with the part of the message that is passed on."""
    rounds: list[list[Transfer]] = []
    placed: dict[int, tuple[int, int]] = {}
    """The round and the part of each message."""
    count = 0
    try:
        order = list(TopologicalSorter({number: one.before for number, one in enumerate(messages)}).static_order())
    except CycleError:
        raise ValueError("its messages wait for each other") from None
    for number in order:
        one = messages[number]
        place = max((placed[other][0] + 1 for other in one.before), default=0)
        part = count if one.passed_on is None else placed[one.passed_on][1]
        count += one.passed_on is None
        placed[number] = (place, part)
        rounds += [[] for _ in range(place + 1 - len(rounds))]
        rounds[place].append(Transfer(one.source, one.target, part, part + 1, one.adds))
    made = Schedule(size, 1, max(1, count), tuple(map(tuple, rounds)))
    if (wrong := made.wrong()) is not None:
        raise ValueError(f"is no sum over all ranks, if each passes on what it received last ({wrong})")
    return made
