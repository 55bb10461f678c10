"""What the tests do in an emulated network: ``python -m tests.live.lab_cases NAME...`` prints what came of each case.

It runs in namespaces of its own, so that nothing touches the machine's; without pytest, so that any interpreter can.
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
from pathlib import Path
from typing import Any, NoReturn

from runtime.containment import Isolation, contain, linux, obstacle
from runtime.live.hosts import rules
from runtime.live.hosts.network import Network
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

Case = Callable[[], Any]
CASES: dict[str, Case] = {}
LIMIT_S = 60


def case(function: Case) -> Case:
    """Registers a case by its name."""
    CASES[function.__name__] = function
    return function


@case
def reach() -> list[list[str]]:
    """Who says hello to whom, by address; each host talks to itself, too."""
    everybody = (0, 1, 2, None)
    with network(100, None, 10) as net:
        heard = []
        for sender in everybody:
            for receiver in everybody:
                source, sink = connected(net, sender, receiver)
                source.sendall(b"hello")
                if sink.recv(5) == b"hello":
                    heard.append([sink.getpeername()[0], sink.getsockname()[0]])
                source.close()
                sink.close()
        return heard


@case
def hosts_share_nothing() -> list[bool]:
    """The same port on every host; a loopback interface that works."""
    with network(None, None) as net, contextlib.ExitStack() as stack:
        works = []
        for host in (0, 1):
            listener, caller = stack.enter_context(socket_of(net, host)), stack.enter_context(socket_of(net, host))
            listener.bind(("127.0.0.1", PORT))
            listener.listen()
            caller.connect(("127.0.0.1", PORT))
            works.append(True)
        return works


@case
def silence() -> list[tuple[int, int]]:
    """What the links count when nobody says anything."""
    with network(100, 100, 100) as net:
        time.sleep(0.5)
        return net.counters()


@case
def counted() -> dict[str, Any]:
    with network(100, 100, 100) as net:
        source, sink = connected(net, 0, 1)
        transfer_s(source, sink, 300_000)
        return {"counters": net.counters()}


@case
def rates() -> list[list[float | None]]:
    """Requested, reported, and measured rates, out and in, in bytes per second."""
    rows: list[list[float | None]] = []
    with network(None, 100) as net:
        for host in (0, 1):
            for mbit in (10, 100, 1000, 33.3, None):
                asked = None if mbit is None else mbit * MBIT
                received = net.set_rate(host, asked)
                assert received == net.rate(host)
                rows.append([asked, received, *read_back(net, host)])
    return rows


@case
def payload() -> dict[str, float]:
    """Rate of 500 kB on the wire, as a part of the requested rate; by limiter."""
    found = {}
    for name, mbits in {"out": (20, None), "in": (None, 20), "both": (20, 20)}.items():
        with network(*mbits) as net:
            for way, (sender, receiver) in {"there": (0, 1), "back": (1, 0)}.items():
                source, sink = connected(net, sender, receiver)
                took_s = transfer_s(source, sink, 500_000)
                found[f"{name}, {way}"] = 500_000 / rules.PAYLOAD_FRAC / took_s / (20 * MBIT)
                source.close()
                sink.close()
    return found


@case
def peers() -> dict[str, float]:
    """Mbit/s from and to everybody while host 0 may send 4 Mbit/s to host 1, and afterwards."""
    found = {}
    with network(40, 40, 40) as net:
        assert net.set_peer_rate(0, 1, 4 * MBIT) == 4 * MBIT
        pairs = {f"{a}>{b}": connected(net, a, b) for a, b in ((0, 1), (0, 2), (1, 0), (2, 1))}
        for name, (source, sink) in pairs.items():
            found[name] = 200_000 / rules.PAYLOAD_FRAC / transfer_s(source, sink, 200_000) / MBIT
        assert net.set_peer_rate(0, 1, None) is None
        found["0>1 again"] = 200_000 / rules.PAYLOAD_FRAC / transfer_s(*pairs["0>1"], 200_000) / MBIT
    return found


@case
def shared() -> dict[str, int]:
    """How many of 60 packets have passed a link of 4 Mbit/s when one of another host has, which came after them."""
    found = {}
    for fair in (True, False):
        for way, mbits, pairs in (
            ("out", (4, None, None), ((0, 1), (0, 2))),
            ("in", (None, None, 4), ((0, 2), (1, 2))),
        ):
            with network(*mbits, fair=(0, 1, 2) if fair else ()) as net, contextlib.ExitStack() as ends:
                sinks = [ends.enter_context(socket_of(net, receiver, socket.SOCK_DGRAM)) for _, receiver in pairs]
                for count, sink, (sender, receiver) in zip((60, 1), sinks, pairs, strict=True):
                    sink.bind((net.addresses[receiver], 0))
                    with socket_of(net, sender, socket.SOCK_DGRAM) as source:
                        for _ in range(count):
                            source.sendto(bytes(1400), sink.getsockname())
                sinks[1].settimeout(5)
                sinks[1].recv(1400)
                sinks[0].setblocking(False)
                passed = 0
                with contextlib.suppress(BlockingIOError):
                    while sinks[0].recv(1400):
                        passed += 1
                found[f"{way}, {'in turn' if fair else 'as they come'}"] = passed
    return found


@case
def slowed() -> dict[str, float]:
    """Parts of the requested rate, around a cut to a tenth; retransmitted segments."""
    with network(40, 40) as net:
        stream = Stream(net, 0, 1)
        found = {"before": stream.during(0.4) / (40 * MBIT)}
        lost = stream.resent
        net.set_rate(1, 4 * MBIT)
        found["first 0.3 s"] = stream.during(0.3) / (4 * MBIT)
        found["next 0.3 s"] = stream.during(0.3) / (4 * MBIT)
        net.set_rate(1, 40 * MBIT)
        found["after"] = stream.during(0.4) / (40 * MBIT)
        net.set_peer_rate(0, 1, 4 * MBIT)
        net.set_peer_rate(0, 1, None)
        found["sent again"] = stream.resent - lost
        stream.stop()
    return found


@case
def slowed_from_fast() -> dict[str, float]:
    """Parts of the requested rate after a cut of a rate at which hosts send several frames in one piece."""
    with network(1000, 1000) as net:
        stream = Stream(net, 0, 1)
        found = {"before": stream.during(0.3) / (1000 * MBIT)}
        for rate in (250 * MBIT, 100 * MBIT, 10 * MBIT):
            net.set_rate(0, rate)
            net.set_rate(1, rate)
            stream.during(0.15)
            found[f"at {rate / MBIT:.0f}"] = stream.during(0.5) / rate
        stream.stop()
    return found


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
def cut() -> dict[str, Any]:
    """Datagrams that arrive, by when and from whom to whom; and what becomes of a connection."""
    found: dict[str, Any] = {}
    with network(10, 10, 10) as net:
        ends = {host: socket_of(net, host, socket.SOCK_DGRAM) for host in (0, 1, 2, None)}
        for host, end in ends.items():
            end.bind((address_of(net, host), PORT))
            end.settimeout(0.3)
        source, sink = connected(net, 0, 1)

        def who_is_heard(when: str) -> list[list[int | None]]:
            heard = []
            for sender in ends:
                for receiver in ends:
                    if sender == receiver:
                        continue
                    words = f"{when} {sender}".encode()
                    with contextlib.suppress(TimeoutError):
                        ends[sender].sendto(words, (address_of(net, receiver), PORT))
                        if ends[receiver].recv(100) == words:
                            heard.append([sender, receiver])
            return heard

        found["before"] = who_is_heard("before")
        for _ in range(40):  # 48 ms of the link: on their way in when it is cut
            ends[None].sendto(bytes(1400), (net.addresses[1], PORT))
        net.cut(1, True)
        net.cut(1, True)
        read_now(ends[1])
        time.sleep(0.1)
        found["late"] = read_now(ends[1])
        found["while"] = who_is_heard("while")
        net.set_rate(1, 20 * MBIT)
        net.cut(1, False)
        found["after"] = who_is_heard("after")
        source.settimeout(10)
        sink.settimeout(10)
        found["connection"] = transfer_s(source, sink, 100_000) > 0
        found["rates"] = read_back(net, 1)
    return found


@case
def self_tested() -> list[list[Any]]:
    from runtime.live.hosts.selftest import check_links

    with network(100, 10, None) as net:
        return [[one.host, one.out, one.asked_bytes_per_s, one.bytes_per_s] for one in check_links(net)]


@case
def self_test_of_a_link_that_passes_nothing() -> str:
    from runtime.live.hosts import selftest

    usual = rules.burst_bytes
    rules.burst_bytes = lambda rate: 1400 if rate == 10 * MBIT else usual(rate)
    selftest.PATIENCE_S = 0.2
    with network(100, 100, 10) as net:
        return refusal(lambda: selftest.check_links(net))


@case
def self_test_of_a_limit_that_is_not_kept() -> str:
    from runtime.live.hosts import selftest

    with network(100, 10) as net:
        net.rate = {0: 100 * MBIT, 1: 5 * MBIT}.__getitem__  # type: ignore[method-assign]
        return refusal(lambda: selftest.check_links(net))


@case
def self_test_of_a_cut_link() -> str:
    from runtime.live.hosts import selftest

    selftest.PATIENCE_S = 0.2
    with network(100, 10) as net:
        net.cut(0, True)
        return refusal(lambda: selftest.check_links(net))


@case
def refused() -> dict[str, str]:
    with network(100, 10) as net:
        return {
            "slow": refusal(lambda: net.set_rate(1, 1.0)),
            "fast": refusal(lambda: net.set_rate(1, 1e10)),
            "itself": refusal(lambda: net.set_peer_rate(1, 1, 1e6)),
            "netem": refusal(lambda: net.set_latency(1, 0.005)),
            "still": str(read_back(net, 1)),
        }


@case
def a_broken_start_leaves_nothing() -> dict[str, Any]:
    """The second network of one name cannot be laid; the first continues."""
    before = descriptors()
    with network(100) as net:
        during = descriptors()
        words = refusal(lambda: Network(RUN_ID, [(0, 1e6), (1, None)]))
        left = descriptors() - during
        reached = len(connected(net, 0, None)) == 2
    return {"words": words, "left": left, "reached": reached, "closed": descriptors() - before}


@case
def what_it_holds() -> dict[str, Any]:
    """Descriptors, threads, children and interfaces while there is a network, and after it."""
    import pyroute2

    pyroute2.IPRoute().close()
    before = descriptors()
    with network(*[100] * 8) as net:
        net.set_rate(3, 1e6)
        net.set_peer_rate(3, 4, 1e6)
        own = Path("/proc/self/task")
        held = {
            "descriptors": descriptors() - before,
            "threads": len(list(own.iterdir())),
            "children": (own / str(os.getpid()) / "children").read_text(),
        }
    names = sorted(line.split(":")[0].strip() for line in Path("/proc/self/net/dev").read_text().splitlines()[2:])
    return {**held, "after": descriptors() - before, "interfaces": [name for name in names if "01234567" in name]}


@case
def relayed() -> dict[str, Any]:
    """A round trip through the relay, two links and two latencies of 10 ms; and the size of what comes through."""
    from runtime.live.hosts.latency import route_to, start_relay, stop_relay

    with network(100, 100, 100) as net:
        latency_s = {net.addresses[0]: 0.01, net.addresses[1]: 0.01, net.addresses[2]: 0.0}
        listener = socket_of(net, 1)
        listener.bind((net.addresses[1], PORT))
        listener.listen()
        relay = start_relay(net.lab_address, [route_to(6000, (net.addresses[1], PORT), latency_s)])
        found: dict[str, Any] = {}
        for host in (0, 2):
            source = socket_of(net, host)
            source.settimeout(5)
            source.connect((net.lab_address, 6000))
            sink = listener.accept()[0]
            begun = time.monotonic()
            source.sendall(b"ping")
            sink.sendall(sink.recv(4))
            source.recv(4)
            found[f"round trip of {host}"] = time.monotonic() - begun
            found[f"transfer of {host}"] = transfer_s(source, sink, 100_000)
        found["counters"] = net.counters()
        stop_relay(relay)
        found["code"] = relay.returncode
    return found


def stay() -> None:
    """Until killed; says which namespaces there are."""
    with network(100, 100, 100) as net:
        inodes = [os.stat(f"/proc/self/fd/{fd}").st_ino for fd in net.namespace_fds]
        print(json.dumps(inodes), flush=True)
        time.sleep(60)


def outcome(name: str) -> tuple[int, str, str]:
    """Exit code, output and complaints of a case, which is played in a fork with a network of its own."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        if (pid := os.fork()) == 0:
            signal.alarm(LIMIT_S)
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            play(name)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        for file in (out, err):
            file.seek(0)
        return code, out.read(), err.read()


def play(name: str) -> NoReturn:
    """In the fork: print what came of the case, and end."""
    code = 1
    try:
        linux.unshare(linux.CLONE_NEWNET)  # links of the case before may be on their way out
        linux.bring_up_loopback()
        print(json.dumps(CASES[name]()))
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
    print(json.dumps({name: outcome(name) for name in sys.argv[1:]}), flush=True)
