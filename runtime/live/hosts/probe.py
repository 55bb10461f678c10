"""Tests whether this machine and user can make emulated links, by making one in namespaces that end with this process.

``python -m runtime.live.hosts.probe [PARENT]`` prints, in JSON, null or a reason and a cure for each of ``links``,
``peers`` and ``netem``. Each function tries in a namespace of its own; without root it must be called inside a run's.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from runtime.containment import Isolation, contain, obstacle
from runtime.containment.process import die_with
from runtime.live.hosts import rules, wiring
from runtime.live.hosts.netlink import routes
from runtime.live.hosts.netns import inside, new_namespace
from runtime.live.hosts.shaping import Queue

RATE_BYTES_PER_S = 12.5e6
DELAY_S = 1e-3
RUN_ID = "0" * 16
USER_NAMESPACES = "run as root, or allow user namespaces (sysctl user.max_user_namespaces=10000)"


class Lack(NamedTuple):
    """Why something is not possible here, and the cure."""

    reason: str
    cure: str


def pyroute2() -> Lack | None:
    """Test for the library that all other tests use."""
    if importlib.util.find_spec("pyroute2") is None:
        return Lack("pyroute2 is not installed", "pip install pyroute2")
    return None


def namespace() -> Lack | None:
    """Test a network namespace for a host."""
    try:
        os.close(new_namespace())
    except OSError as error:
        return Lack(f"no network namespace for a host ({error})", USER_NAMESPACES)
    return None


def wires() -> Lack | None:
    """Test a switch with a host."""
    try:
        with _elsewhere() as fd, routes(fd) as ip, inside(fd):
            bridge = wiring.lay_bridge(ip, RUN_ID)
            os.close(wiring.connect_host(ip, bridge, 0, RUN_ID, None).namespace_fd)
    except OSError as error:
        return Lack(f"no veth pair at a bridge ({_words(error)})", _kernel("bridge veth", "BRIDGE, VETH"))
    return None


def tbf() -> Lack | None:
    """Test the rate of a link."""
    return _queue(lambda queue, ip: queue.set_rate(ip, RATE_BYTES_PER_S), "tbf", "NET_SCH_TBF")


def htb() -> Lack | None:
    """Test the rate to a single peer."""
    return _queue(
        lambda queue, ip: queue.set_peer_rate(ip, 1, RATE_BYTES_PER_S), "htb, cls_u32", "NET_SCH_HTB, NET_CLS_U32"
    )


def netem() -> Lack | None:
    """Test the delay of a link."""
    return _queue(lambda queue, ip: queue.set_delay(ip, DELAY_S), "netem", "NET_SCH_NETEM")


def _queue(put: Callable[[Queue, Any], object], what: str, options: str) -> Lack | None:
    """Try a queue on the loopback interface, so that a missing veth does not look like a missing queue."""
    try:
        with _elsewhere() as fd, routes(fd) as ip:
            ip.link("set", index=wiring.LOOPBACK_INDEX, mtu=rules.MTU_BYTES)
            put(Queue(wiring.LOOPBACK_INDEX, "probe", sorts=True), ip)
    except OSError as error:
        return Lack(f"no {what} ({_words(error)})", _kernel(f"sch_{what}".replace(",", ""), options))
    return None


@contextlib.contextmanager
def _elsewhere() -> Iterator[int]:
    """A namespace that disappears afterwards with its content."""
    fd = new_namespace()
    try:
        yield fd
    finally:
        os.close(fd)


def _words(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)


def _kernel(modules: str, options: str) -> str:
    wanted = ", ".join(f"CONFIG_{name}" for name in options.split(", "))
    return f"as root: modprobe -a {modules}; or use a kernel with {wanted}"


CAPABILITIES: dict[str, tuple[Callable[[], Lack | None], ...]] = {
    "links": (pyroute2, namespace, wires, tbf),
    "peers": (pyroute2, htb),
    "netem": (pyroute2, netem),
}
"""Capabilities that a run may need, and the tests that each requires."""


def report() -> dict[str, Lack | None]:
    """The first lack of each capability, found by trying."""
    return {name: next(filter(None, (look() for look in looks)), None) for name, looks in CAPABILITIES.items()}


def main(parent_pid: int | None = None) -> None:
    """Entry point; the process ends with its parent, if that passes its id."""
    if parent_pid is not None:
        die_with(parent_pid)
    if (words := obstacle(Isolation.NETWORK)) is not None:
        found: dict[str, Lack | None] = dict.fromkeys(
            CAPABILITIES, Lack(f"no private namespaces ({words.lower()})", USER_NAMESPACES)
        )
    else:
        contain(Isolation.NETWORK)
        found = report()
    json.dump(found, sys.stdout)
    print()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None)
