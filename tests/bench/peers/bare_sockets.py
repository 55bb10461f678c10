"""The ceiling: two processes, one blocking TCP connection, aligned buffers, and nothing else.

One iteration: the worker sends header + gradient, the server takes it in full and answers with header + parameters,
the worker takes those in full. Both ends own a gradient and a parameter buffer, as in training, so no byte is served
from a cache line that the same iteration has just received. No acknowledgement, no authentication, no arithmetic.
"""

from __future__ import annotations

import contextlib
import mmap
import socket
import struct
import time

from bench.stats import median_gap

from . import ranks

HEADER_BYTES = 64
"""A multiple of 64: after an 8-byte header the payload's copies are misaligned and 3x slower."""
WARM_UP = 5
DEADLINE = struct.pack("ll", int(ranks.TIMEOUT_S), 0)


def push_pull(nbytes: int, iterations: int) -> float:
    """Median seconds of one push and one pull of ``nbytes`` each."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tune(listener)  # accepted sockets inherit it, and with it the windows that are negotiated at connect
        listener.settimeout(ranks.TIMEOUT_S)
        stamps, _ = ranks.run(rank, 2, listener, nbytes, iterations)
    return median_gap(stamps)


def rank(rank: int, listener: socket.socket, nbytes: int, iterations: int) -> list[float]:
    """Worker (0) or server (1)."""
    if rank:
        sock, _ = listener.accept()
    else:
        sock = socket.socket()
        tune(sock)
        sock.connect(listener.getsockname())
    sock.setblocking(True)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):  # unlike settimeout they cost no poll per call
        sock.setsockopt(socket.SOL_SOCKET, option, DEADLINE)
    with sock:
        return (_serve if rank else _work)(sock, nbytes, iterations + WARM_UP)[WARM_UP:]


def _work(sock: socket.socket, nbytes: int, iterations: int) -> list[float]:
    gradient, parameters = buffer(nbytes), buffer(nbytes)
    stamps = [time.perf_counter()]
    for _ in range(iterations):
        send(sock, gradient)
        receive(sock, parameters)
        stamps.append(time.perf_counter())
    return stamps


def _serve(sock: socket.socket, nbytes: int, iterations: int) -> list[float]:
    gradient, parameters = buffer(nbytes), buffer(nbytes)
    for _ in range(iterations):
        receive(sock, gradient)
        send(sock, parameters)
    return []


def tune(sock: socket.socket) -> None:
    """No Nagle; cubic where allowed (bbr was measured 1.6x slower on loopback)."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")


def buffer(nbytes: int) -> memoryview:
    """Page-aligned memory, written once so that no page fault falls into the measurement: header, then payload."""
    view = memoryview(mmap.mmap(-1, HEADER_BYTES + nbytes))
    view[:] = bytes(len(view))
    return view


def send(sock: socket.socket, message: memoryview) -> None:
    """All of it: sendmsg of header and payload, then whatever the kernel did not take."""
    sent = sock.sendmsg([message[:HEADER_BYTES], message[HEADER_BYTES:]])
    if sent < len(message):
        sock.sendall(message[sent:])


def receive(sock: socket.socket, message: memoryview) -> None:
    """Header first, then the payload to where it belongs, as every framed protocol has to."""
    for part in (message[:HEADER_BYTES], message[HEADER_BYTES:]):
        while part:
            got = sock.recv_into(part, len(part), socket.MSG_WAITALL)
            if not got:
                raise ConnectionError("the other end is gone")
            part = part[got:]
