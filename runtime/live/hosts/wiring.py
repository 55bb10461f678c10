"""The cables: a switch in the current namespace, a namespace for every host, and a pair of interfaces between the two.

Nothing here depends on earlier traffic: all neighbour entries are permanent, the switch has a fixed table of hosts and
ports, and neither the switch nor IPv6 sends anything by itself.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Any, NamedTuple

from runtime.live.hosts import rules
from runtime.live.hosts.netlink import LinkRefused, encode_neighbours, refusals, routes, send_all
from runtime.live.hosts.netns import inside, new_namespace

INNER = "eth0"
LOOPBACK_INDEX = 1
PREFIX_BITS = 24
FORWARDING, DISABLED = 3, 0
"""States of a port of the switch."""
NLA_F_NESTED = 0x8000
NUD_NOARP = 0x40
NTF_MASTER = 0x04
SILENT = {"attrs": [("AF_INET6", {"attrs": [("IFLA_INET6_ADDR_GEN_MODE", 1)]})]}
"""No IPv6 address is generated, so none is announced or resolved."""


class Ends(NamedTuple):
    """The ends of a host's connection to the switch."""

    namespace_fd: int
    inner: int
    """Index of the host's interface, in its namespace."""
    port: int
    """Index of the switch's end, in the current namespace."""


def lay_bridge(ip: Any, run_id: str) -> int:
    """Create the switch, which is also the laboratory's own interface; returns its index."""
    name = rules.bridge_name(run_id)
    with refusals(f"{name}: bridge"):
        ip.link(
            "add",
            ifname=name,
            kind="bridge",
            group=rules.group(run_id),
            address=rules.lladdr(rules.LAB_NUMBER),
            br_stp_state=0,
            br_forward_delay=0,
            br_mcast_snooping=0,
        )
    return socket.if_nametoindex(name)


def switch_on(ip: Any, index: int, frames: int | None) -> None:
    """Bring the bridge up; ``frames``: most frames of the laboratory's segments (None: no limit)."""
    with refusals("bridge"):
        _silence(ip, index)
        ip.link("set", index=index, state="up", **_in_pieces(frames))
        ip.addr("add", index=index, address=rules.address(rules.LAB_NUMBER), prefixlen=PREFIX_BITS)


def connect_host(ip: Any, bridge: int, number: int, run_id: str, frames: int | None) -> Ends:
    """Create a host's namespace and interface; ``frames``: as for the laboratory."""
    fd = new_namespace()
    try:
        with refusals(f"host {number}: veth"):
            return _connect(ip, bridge, number, run_id, fd, frames)
    except BaseException:
        os.close(fd)
        raise


def _connect(ip: Any, bridge: int, number: int, run_id: str, fd: int, frames: int | None) -> Ends:
    name = rules.port_name(number, run_id)
    peer = {"ifname": INNER, "net_ns_fd": fd, "address": rules.lladdr(number)}
    ip.link("add", ifname=name, kind="veth", group=rules.group(run_id), mtu=rules.MTU_BYTES, peer=peer)
    port = socket.if_nametoindex(name)
    _silence(ip, port)
    ip.link("set", index=port, master=bridge, state="up", **_in_pieces(frames))
    ip.fdb("add", ifindex=port, lladdr=rules.lladdr(number), state=NUD_NOARP, flags=NTF_MASTER)
    with inside(fd):
        inner = socket.if_nametoindex(INNER)
    with routes(fd) as there:
        _silence(there, inner)
        there.link("set", index=inner, mtu=rules.MTU_BYTES, **_in_pieces(frames))
        there.link("set", index=LOOPBACK_INDEX, state="up")
        there.link("set", index=inner, state="up")
        there.addr("add", index=inner, address=rules.address(number), prefixlen=PREFIX_BITS)
    return Ends(fd, inner, port)


def _in_pieces(frames: int | None) -> dict[str, int]:
    return {} if frames is None else {"gso_max_segs": frames}


def _silence(ip: Any, index: int) -> None:
    """Disable IPv6 before an interface goes up; a kernel without IPv6 needs nothing."""
    try:
        with refusals("IPv6"):
            ip.link("set", index=index, IFLA_AF_SPEC=SILENT)
    except LinkRefused as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EOPNOTSUPP):
            raise


def introduce(bridge: int, hosts: list[Ends]) -> None:
    """Give all hosts permanent entries for all addresses: no address request can be delayed by data, or lost."""
    known = [(rules.address(number), rules.lladdr(number)) for number in (*range(len(hosts)), rules.LAB_NUMBER)]
    send_all(None, encode_neighbours(bridge, known[:-1]))
    messages: dict[int, list[bytes]] = {}
    for ends in hosts:
        if ends.inner not in messages:
            messages[ends.inner] = encode_neighbours(ends.inner, known)
        send_all(ends.namespace_fd, messages[ends.inner])


def set_port(ip: Any, port: int, state: int) -> None:
    """Let the switch forward or block all traffic of a port."""
    with refusals("port of the switch"):
        nested = ("IFLA_PROTINFO", {"attrs": [("IFLA_BRPORT_STATE", state)]}, NLA_F_NESTED)
        ip.link("update", index=port, family=socket.AF_BRIDGE, attrs=[nested])


def tear_down(ip: Any, run_id: str) -> None:
    """Delete all interfaces at once: one by one takes 15 ms each."""
    with refusals("deleting the network's interfaces"):
        ip.link("del", group=rules.group(run_id))
