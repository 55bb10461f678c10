"""Tests in an emulated network: ``python -m tests.live.lab_cases NAME...`` prints what each of them complains of.

It runs in namespaces of its own, so that nothing touches the machine's; without pytest, so that any interpreter can.
Rates are held to bounds that only a broken limit misses; how exact they are is measured by hand.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import NoReturn

from runtime.containment import Isolation, contain, linux, obstacle
from runtime.live.hosts import rules, selftest
from runtime.live.hosts.network import Network
from runtime.live.hosts.selftest import check_links
from tests.live.lab import (
    MBIT,
    PORT,
    RUN_ID,
    Stream,
    address_of,
    connected,
    descriptors,
    network,
    read_back,
    refusal,
    socket_of,
    transfer_s,
)

Case = Callable[[], None]
CASES: dict[str, Case] = {}
LIMIT_S = 60


def case(function: Case) -> Case:
    """Registers a case by its name."""
    CASES[function.__name__] = function
    return function


@case
def everybody_reaches_everybody() -> None:
    """Each host talks to itself, too."""
    everybody = (0, 1, 2, None)
    with network(100, None, 10) as net:
        heard = []
        for sender in everybody:
            for receiver in everybody:
                source, sink = connected(net, sender, receiver)
                source.sendall(b"hello")
                assert sink.recv(5) == b"hello"
                heard.append((sink.getpeername()[0], sink.getsockname()[0]))
                source.close()
                sink.close()
    addresses = [f"10.77.0.{number}" for number in (1, 2, 3, 254)]
    assert heard == [(a, b) for a in addresses for b in addresses], heard


@case
def every_host_has_ports_and_a_loopback_of_its_own() -> None:
    with network(None, None) as net, contextlib.ExitStack() as stack:
        for host in (0, 1):
            listener, caller = stack.enter_context(socket_of(net, host)), stack.enter_context(socket_of(net, host))
            listener.bind(("127.0.0.1", PORT))
            listener.listen()
            caller.connect(("127.0.0.1", PORT))


@case
def counters_tell_what_passed_each_link_and_no_other() -> None:
    with network(100, 100, 100) as net:
        time.sleep(0.2)
        assert net.counters() == [(0, 0)] * 3, "nothing is said that nobody asked for"
        transfer_s(*connected(net, 0, 1), 300_000)
        (out_0, in_0), (out_1, in_1), idle = found = net.counters()
    assert out_0 == in_1 > 300_000, found
    assert in_0 == out_1 < 100_000, found
    assert idle == (0, 0)


@case
def the_kernel_holds_what_was_asked() -> None:
    """Requested, reported, and held rates, out and in, in bytes per second."""
    with network(None, 100) as net:
        for host in (0, 1):
            for mbit in (10, 100, 1000, 33.3):
                received = net.set_rate(host, mbit * MBIT)
                assert received is not None
                assert abs(received - mbit * MBIT) <= 1.0, (mbit, received)
                assert net.rate(host) == received
                assert read_back(net, host) == [received, received]
            assert net.set_rate(host, None) is None
            assert net.rate(host) is None
            assert read_back(net, host) in ([], [2**32 - 1] * 2)


@case
def data_passes_at_the_rate_whoever_limits_it() -> None:
    """Faster would be no limit; slower than a third would be a broken one."""
    for limiter, mbits in {"out": (20, None), "in": (None, 20), "both": (20, 20)}.items():
        with network(*mbits) as net:
            for sender, receiver in ((0, 1), (1, 0)):
                source, sink = connected(net, sender, receiver)
                took_s = transfer_s(source, sink, 500_000)
                part = 500_000 / rules.PAYLOAD_FRAC / took_s / (20 * MBIT)
                assert 0.3 < part < 1.05, (limiter, sender, part)
                source.close()
                sink.close()


@case
def a_peers_rate_touches_that_peer_only() -> None:
    """Mbit/s from and to everybody while host 0 may send 4 Mbit/s to host 1, and afterwards."""
    with network(40, 40, 40) as net:
        assert net.set_peer_rate(0, 1, 4 * MBIT) == 4 * MBIT
        pairs = {pair: connected(net, *pair) for pair in ((0, 1), (0, 2), (1, 0), (2, 1))}
        found = {pair: 200_000 / rules.PAYLOAD_FRAC / transfer_s(*ends, 200_000) / MBIT for pair, ends in pairs.items()}
        assert 1.2 < found.pop((0, 1)) < 4.4
        assert net.set_peer_rate(0, 1, None) is None
        found[0, 1] = 200_000 / rules.PAYLOAD_FRAC / transfer_s(*pairs[0, 1], 200_000) / MBIT
    assert all(12.0 < mbits < 44.0 for mbits in found.values()), found


def passed_before_another_host(way: str, fair: bool) -> int:
    """How many of 60 packets have passed a link of 4 Mbit/s when one of another host has, which came after them."""
    mbits, pairs = ((4, None, None), ((0, 1), (0, 2))) if way == "out" else ((None, None, 4), ((0, 2), (1, 2)))
    with network(*mbits, fair=(0, 1, 2) if fair else ()) as net, contextlib.ExitStack() as ends:
        sinks = [ends.enter_context(socket_of(net, receiver, socket.SOCK_DGRAM)) for _, receiver in pairs]
        for count, sink, (sender, receiver) in zip((60, 1), sinks, pairs, strict=True):
            sink.bind((net.addresses[receiver], 0))
            with socket_of(net, sender, socket.SOCK_DGRAM) as source:
                for _ in range(count):
                    source.sendto(bytes(1400), sink.getsockname())
        sinks[1].settimeout(5)
        sinks[1].recv(1400)
        return read_now(sinks[0])


@case
def hosts_that_take_turns_share_a_link_whoever_came_first() -> None:
    """As packets come, all that the first one has sent passes before anything of the second."""
    for way in ("out", "in"):
        assert passed_before_another_host(way, fair=False) == 60
        assert passed_before_another_host(way, fair=True) < 45


@case
def a_cut_of_the_rate_to_a_tenth_does_not_collapse() -> None:
    """With a limit on latency in place of bytes, next to nothing passes in the first 0.3 s."""
    with network(40, 40) as net:
        stream = Stream(net, 0, 1)
        try:
            assert stream.during(0.4) > 0.3 * 40 * MBIT
            lost = stream.resent
            net.set_rate(1, 4 * MBIT)
            first, following = stream.during(0.3) / (4 * MBIT), stream.during(0.3) / (4 * MBIT)
            assert 0.3 < first < 3.0, first
            assert 0.3 < following < 1.5, following
            net.set_rate(1, 40 * MBIT)
            assert stream.during(0.4) > 0.3 * 40 * MBIT
            net.set_peer_rate(0, 1, 4 * MBIT)
            net.set_peer_rate(0, 1, None)
            assert stream.resent == lost, "nothing under way is dropped"
        finally:
            stream.stop()


def read_now(end: socket.socket) -> int:
    """How many datagrams are there."""
    count, patience_s = 0, end.gettimeout()
    end.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while end.recv(2000):
            count += 1
    end.settimeout(patience_s)
    return count


@case
def cut_off_and_back() -> None:
    """Datagrams that arrive, by when and from whom to whom; and what becomes of a connection."""
    with network(10, 10, 10) as net:
        ends = {host: socket_of(net, host, socket.SOCK_DGRAM) for host in (0, 1, 2, None)}
        for host, end in ends.items():
            end.bind((address_of(net, host), PORT))
            end.settimeout(0.3)
        source, sink = connected(net, 0, 1)
        pairs = list(permutations(ends, 2))

        def who_is_heard(when: str) -> list[tuple[int | None, ...]]:
            heard = []
            for sender, receiver in pairs:
                words = f"{when} {sender}".encode()
                with contextlib.suppress(TimeoutError):
                    ends[sender].sendto(words, (address_of(net, receiver), PORT))
                    if ends[receiver].recv(100) == words:
                        heard.append((sender, receiver))
            return heard

        assert who_is_heard("before") == pairs
        for _ in range(40):  # 48 ms of the link: on their way in when it is cut
            ends[None].sendto(bytes(1400), (net.addresses[1], PORT))
        net.cut(1, True)
        net.cut(1, True)
        read_now(ends[1])
        time.sleep(0.1)
        assert read_now(ends[1]) == 0, "what was on its way in is lost"
        assert who_is_heard("while") == [pair for pair in pairs if 1 not in pair]
        net.set_rate(1, 20 * MBIT)
        net.cut(1, False)
        assert who_is_heard("after") == pairs
        source.settimeout(10)
        sink.settimeout(10)
        transfer_s(source, sink, 100_000)
        assert read_back(net, 1) == [20 * MBIT] * 2, "set while it was cut"


@case
def what_cannot_be_done_is_refused_and_changes_nothing() -> None:
    with network(100, 10) as net:
        for rate in (1.0, 1e10):
            words = refusal(lambda rate=rate: net.set_rate(1, rate))  # type: ignore[misc]
            assert "link of host 1" in words, words
            assert "use 100 to" in words, words
        assert "name two hosts" in refusal(lambda: net.set_peer_rate(1, 1, 1e6))
        netem = refusal(lambda: net.set_latency(1, 0.005))
        assert netem == "not refused" or "netem: refused by the kernel" in netem, netem
        assert read_back(net, 1) == [1.25e6] * 2


@case
def the_self_test_passes_what_is_well() -> None:
    with network(100, 10, None) as net:
        checks = check_links(net)
    ways = sorted((one.host, one.out) for one in checks)
    assert ways == [(host, out) for host in range(3) for out in (False, True)], ways
    for one in checks:
        assert 0 < one.bytes_per_s < 1.3 * (one.asked_bytes_per_s or float("inf")), one


@case
def the_self_test_catches_a_burst_below_the_mtu() -> None:
    usual = rules.burst_bytes
    rules.burst_bytes = lambda rate: 1400 if rate == 10 * MBIT else usual(rate)
    selftest.PATIENCE_S = 0.2
    with network(100, 100, 10) as net:
        words = refusal(lambda: check_links(net))
    assert words.startswith("link of host 2 (1250000 bytes/s, burst 1400 bytes): 0 of "), words


@case
def the_self_test_catches_a_limit_that_is_not_kept() -> None:
    with network(100, 10) as net:
        net.rate = {0: 100 * MBIT, 1: 5 * MBIT}.__getitem__  # type: ignore[method-assign]
        words = refusal(lambda: check_links(net))
    assert words.startswith("link of host 1 (625000 bytes/s, "), words
    assert "the limit is not kept" in words, words


@case
def a_start_that_fails_takes_nothing_of_others_with_it() -> None:
    """The second network of one name cannot be laid; the first continues."""
    before = descriptors()
    with network(100) as net:
        during = descriptors()
        assert "File exists" in refusal(lambda: Network(RUN_ID, [(0, 1e6), (1, None)]))
        assert descriptors() == during
        connected(net, 0, None)
    assert descriptors() == before


@case
def it_holds_one_descriptor_for_a_host_and_starts_nothing() -> None:
    import pyroute2

    pyroute2.IPRoute().close()
    before = descriptors()
    with network(*[100] * 8) as net:
        net.set_rate(3, 1e6)
        net.set_peer_rate(3, 4, 1e6)
        assert descriptors() - before <= 8 + 6
        own = Path("/proc/self/task")
        assert len(list(own.iterdir())) == 1, "threads"
        assert (own / str(os.getpid()) / "children").read_text() == ""
    assert descriptors() == before
    interfaces = Path("/proc/self/net/dev").read_text()
    assert "01234567" not in interfaces, interfaces


@case
def relayed_between_hosts_over_their_links() -> None:
    """A round trip through the relay, two links and two latencies of 10 ms; and the size of what comes through."""
    from runtime.live.hosts.latency import route_to, start_relay, stop_relay

    with network(100, 100, 100) as net:
        latency_s = {net.addresses[0]: 0.01, net.addresses[1]: 0.01, net.addresses[2]: 0.0}
        listener = socket_of(net, 1)
        listener.bind((net.addresses[1], PORT))
        listener.listen()
        relay = start_relay(net.lab_address, [route_to(6000, (net.addresses[1], PORT), latency_s)])
        for host, least_s in ((0, 0.04), (2, 0.02)):
            source = socket_of(net, host)
            source.settimeout(5)
            source.connect((net.lab_address, 6000))
            sink = listener.accept()[0]
            begun = time.monotonic()
            source.sendall(b"ping")
            sink.sendall(sink.recv(4))
            source.recv(4)
            took_s = time.monotonic() - begun
            assert least_s <= took_s < 1.0, (host, took_s)
            transfer_s(source, sink, 100_000)
        (out_0, _), (_, in_1), (out_2, _) = counters = net.counters()
        stop_relay(relay)
    assert out_0 > 100_000 < out_2, counters
    assert in_1 > 200_000, "both transfers pass the server's own link"
    assert relay.returncode == 0


def stay() -> None:
    """Until killed; says which namespaces there are."""
    with network(100, 100, 100) as net:
        inodes = [os.stat(f"/proc/self/fd/{fd}").st_ino for fd in net.namespace_fds]
        print(json.dumps(inodes), flush=True)
        time.sleep(60)


def complaints(name: str) -> str:
    """What a case says that fails; it is played in a fork with a network of its own."""
    with tempfile.TemporaryFile("w+") as said:
        if (pid := os.fork()) == 0:
            signal.alarm(LIMIT_S)
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            play(name)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said.seek(0)
        return said.read() or (f"exit code {code}" if code else "")


def play(name: str) -> NoReturn:
    """In the fork: play the case, and end."""
    code = 1
    try:
        linux.unshare(linux.CLONE_NEWNET)  # links of the case before may be on their way out
        linux.bring_up_loopback()
        CASES[name]()
        code = 0
    except BaseException:  # noqa: BLE001 (whatever it is, the fork ends here)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    assert not obstacle(Isolation.NETWORK)
    contain(Isolation.NETWORK)
    if sys.argv[1:] == ["stay"]:
        stay()
    print(json.dumps({name: complaints(name) for name in sys.argv[1:]}), flush=True)
