"""Bare sockets, and ours, between two network namespaces: a pair of virtual interfaces and a switch, without a rate.

Both ends as in ``bare_sockets`` and ``ours``; only the connection is another one.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from bench.launch import Unavailable
from bench.stats import median_gap
from runtime.live.hosts import netns
from runtime.live.hosts.network import Network

from . import bare_sockets, ranks


@contextmanager
def two_machines() -> Iterator[Network]:
    """Hosts 0 and 1; they end with this process at the latest."""
    if os.geteuid() != 0:
        raise Unavailable("networks for other programs need root")
    with netns.inside(netns.new_namespace()):
        network = Network(secrets.token_hex(8), [(0, None), (1, None)])
    yield network


def push_pull(nbytes: int, iterations: int) -> float:
    """As ``bare_sockets.push_pull``: the worker on host 0, the server on host 1."""
    with two_machines() as network:
        with netns.inside(network.namespace_fds[1]):
            listener = socket.socket()
            bare_sockets.tune(listener)
            listener.bind((network.addresses[1], 0))
            listener.listen()
        with listener:
            listener.settimeout(ranks.TIMEOUT_S)
            stamps, _ = ranks.run(_rank, 2, listener, network.namespace_fds, nbytes, iterations)
    return median_gap(stamps)


def _rank(rank: int, listener: socket.socket, namespaces: list[int], nbytes: int, iterations: int) -> list[float]:
    netns.enter(namespaces[rank])
    return bare_sockets.rank(rank, listener, nbytes, iterations)
