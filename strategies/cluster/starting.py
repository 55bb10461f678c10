"""Starts: in the order of rank, with or without passing over a gang that has no place, or with preemption.

With preemption the jobs that hold GPUs are those that a walk over all of them by rank would choose: by rank (holders
first among equals) each job gets its GPUs if so many are left; a job that gets none is passed over. Of this choice only
the differences to what holds GPUs now are carried out, so a job gives way only to one of smaller value that could not
start otherwise, and the last by rank give way first.
"""

from __future__ import annotations

from collections.abc import Mapping

from strategies.cluster.jobs import Rank, Walk
from strategies.protocol import ClusterCommand, JobState, Placement, Places, PreemptJob, Room, StartJob

Holders = list[tuple[Rank, JobState]]


def start_until_blocked(walk: Walk, room: Room, placement: Placement) -> tuple[list[StartJob], JobState | None]:
    """Start jobs up to the first without a place, which is returned, too (None: all have started).

    Their places are taken in ``room``.
    """
    starts: list[StartJob] = []
    for _, state in walk:
        start = try_to_start(state, room, placement)
        if start is None:
            return starts, state
        starts.append(start)
    return starts, None


def start_what_fits(walk: Walk, room: Room, placement: Placement) -> list[StartJob]:
    """Start every job that has a place, in order; the places are taken in ``room``."""
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


def start_by_preempting(
    walk: Walk, holding: Holders, leaving: Mapping[str, JobState], room: Room, placement: Placement
) -> list[ClusterCommand]:
    """Starts, and orders to leave for jobs that must give way; the jobs that they make room for start afterwards.

    ``holding``: the jobs with GPUs whose value is above some waiting job's, with ranks, the last first; the list
    is changed. ``leaving``: jobs that were already ordered to go; a job that they make room for is not given more.
    Places of jobs that start are taken in ``room``.
    """
    commands: list[ClusterCommand] = []
    soon = room.copy() if leaving else room  # one and the same until a job leaves
    for job in leaving:
        soon.release(job)
    waits = False
    for (value, _), state in walk:
        if not waits and (start := try_to_start(state, room, placement)) is not None:
            if soon is not room:
                soon.take(state.request, start.places)
            commands.append(start)
        elif try_to_start(state, soon, placement) is not None:
            waits = True  # until the victims have left; later jobs must not take its place
        else:
            if soon is room:
                soon = room.copy()
            victims = _make_room(state, value, holding, soon, placement)
            if not victims:
                walk.limit = state.request.gpus - 1
            waits = waits or bool(victims)
            commands += [PreemptJob(job=victim.request.job) for victim in victims]
        if not holding or holding[0][0][0] <= value:
            walk.limit = min(walk.limit, soon.free_gpus)
    return commands


def _make_room(state: JobState, value: float, holding: Holders, soon: Room, placement: Placement) -> list[JobState]:
    """The jobs that must leave so that this one has a place, which is taken in ``soon``; none: even all are not enough.

    They are removed from ``holding``.
    """
    request, count = state.request, 0
    missing = request.gpus - soon.free_gpus
    for (other, _), victim in holding:
        if other <= value:
            break
        count += 1
        missing -= victim.request.gpus
    if missing > 0 or not count:
        return []
    victims: Holders = []
    for entry in holding[:count]:
        soon.release(entry[1].request.job)
        victims.append(entry)
        if (places := placement.place(request, soon) if request.gpus <= soon.free_gpus else None) is not None:
            break
    else:
        places = None
    if places is None:
        for _, victim in victims:
            soon.take(victim.request, _places(victim))
        return []
    return _spare(state, victims, holding, soon, placement)


def _spare(state: JobState, victims: Holders, holding: Holders, soon: Room, placement: Placement) -> list[JobState]:
    """The victims that must go; those that need not go after all stay, the first by rank."""
    going = []
    for entry in reversed(victims):
        victim = entry[1]
        soon.take(victim.request, _places(victim))
        if state.request.gpus > soon.free_gpus or placement.place(state.request, soon) is None:
            soon.release(victim.request.job)
            going.append(entry)
    places = placement.place(state.request, soon)
    assert places is not None
    soon.take(state.request, places)
    for entry in going:
        holding.remove(entry)
    return [victim for _, victim in going]


def _places(holder: JobState) -> Places:
    assert holder.places is not None
    return holder.places
