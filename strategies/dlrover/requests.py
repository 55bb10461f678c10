"""What nodes would use if every worker had only the cores that it requests (pure).

A node with a request may use idle cores, too, so a worker that is alone on a host of four cores seems to need four of
them, and servers that keep up with it four times what they need for a worker of one core. A plan may only count on
what is guaranteed. Both uses are proportional to the speed of the workers, so both are taken back by the same factor:
in all, what the workers used up to their requests over what they used.

A worker of 1 core that uses 3.2, with servers that use 0.8: 1 core and 0.8 / 3.2 = 0.25. Time in which a worker waits
for others does not shrink with its cores, so with one core it would use a bit less than 1, and servers less than 0.25:
the estimate is an upper bound, at most by the part of its time for which it then waits.

A server is not cut: one that needs more than its request at that speed is too small, whatever is idle on its host now.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strategies.parts.scaling.usage import Given, Use
from strategies.protocol import NodeId


def at_requests(given: Mapping[NodeId, Given], uses: Mapping[NodeId, Use]) -> dict[NodeId, Use]:
    """The same observation with workers that use no more than their requests, and servers that serve just these.

    ``uses`` has every node of ``given``; memory and the time that servers are busy stay as they are.
    """
    workers = [node for node in given if node.role == "worker"]
    kept = {node: min(uses[node].cores, given[node].cores) for node in workers}
    used = sum(uses[node].cores for node in workers)
    part = sum(kept.values()) / used if used else 1.0
    return {
        node: msgspec.structs.replace(use, cores=kept[node] if node in kept else use.cores * part)
        for node, use in uses.items()
    }
