"""The time of a sum by a schedule of transfers over links that nobody else uses (pure).

A rank has one port each way: it sends one message at a time, and receives one at a time, in the order of the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.core.collectives.schedule import Schedule


def ends_s(schedule: Schedule, hop_s: Callable[[float], float], begun_s: Sequence[float]) -> list[float]:
    """When each rank has the sum.

    Args:
        schedule: the transfers.
        hop_s: seconds of a message that is this fraction of the vector.
        begun_s: when each rank has its share and takes part.
    """
    count = schedule.blocks * schedule.parts
    takes_s: dict[int, float] = {}
    sent_s = list(begun_s)
    received_s = [min(begun_s)] * len(begun_s) if schedule.buffered else list(begun_s)
    for transfers in schedule.rounds:
        there_s = [max(pair) for pair in zip(begun_s, received_s, strict=True)]
        for source, target, lo, hi, _ in transfers:
            size = hi - lo
            if size not in takes_s:
                takes_s[size] = hop_s(size / count)
            end_s = max(sent_s[source], there_s[source], received_s[target]) + takes_s[size]
            sent_s[source] = received_s[target] = end_s
    return [max(ends) for ends in zip(sent_s, received_s, begun_s, strict=True)]
