"""What transfers say about links, and what they do not."""

from __future__ import annotations

import pytest

from strategies.mlfabric.bandwidths import SERVERS, Bandwidths
from strategies.protocol import Started

PLACES = {"server:0": "host:0", "worker:0": "host:0", "worker:1": "host:1", "aggregator:0": "host:1"}


def bandwidths() -> Bandwidths:
    begun = Started(
        t=0.0,
        workers=(0, 1),
        batch_samples=(1, 1),
        num_servers=1,
        places=PLACES,
        links={"host:0": 80.0, "host:1": 40.0},
    )
    return Bandwidths(begun, smoothing=0.5)


def test_transfers_tell_of_uplinks() -> None:
    links = bandwidths()
    links.took(1, planned_s=1.0, send_s=2.0)
    assert links.links([1]) == {"host:1": 30.0, SERVERS: 80.0}
    _, of_aggregators = links.aggregators(1)
    assert of_aggregators == {"into host:1": 30.0, "host:1": 30.0}
    # It takes next to no time: as a rate that would be more than any number
    links = bandwidths()
    links.took(0, planned_s=1.0, send_s=1e-320)
    assert links.links([0]) == {"host:0": pytest.approx(80.0), SERVERS: 80.0}
    links = bandwidths()
    assert links.links([1, 2]) == {"host:1": 40.0, "worker:2": 60.0, SERVERS: 80.0}
    links.placed(2, "host:1")
    assert links.path(2) == links.path(1)
    assert links.links([1, 2]) == {"host:1": 40.0, SERVERS: 80.0}
