"""Starts without preemption: in the order of rank, with or without passing over a gang that has no place."""

from __future__ import annotations

from strategies.cluster.jobs import Walk
from strategies.protocol import JobState, Placement, Room, StartJob


def start_until_blocked(walk: Walk, room: Room, placement: Placement) -> tuple[list[StartJob], JobState | None]:
    """Start jobs up to the first without a place, which is returned, too (None: all have started).

    What starts is taken in ``room``.
    """
    starts: list[StartJob] = []
    for _, state in walk:
        start = try_to_start(state, room, placement)
        if start is None:
            return starts, state
        starts.append(start)
    return starts, None


def start_what_fits(walk: Walk, room: Room, placement: Placement) -> list[StartJob]:
    """Start every job that has a place, in order; what starts is taken in ``room``."""
    starts: list[StartJob] = []
    walk.limit = min(walk.limit, room.free_gpus)
    for _, state in walk:
        start = try_to_start(state, room, placement)
        if start is None:
            walk.limit = state.request.gpus - 1
        else:
            starts.append(start)
            walk.limit = min(walk.limit, room.free_gpus)
    return starts


def try_to_start(state: JobState, room: Room, placement: Placement) -> StartJob | None:
    """The command for a job that has a place, which is taken in ``room``; None: it has none."""
    request = state.request
    if request.gpus > room.free_gpus:
        return None
    places = placement.place(request, room)
    if places is None:
        return None
    room.take(request, places)
    return StartJob(job=request.job, places=places)
