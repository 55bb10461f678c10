"""Linux system calls that Python 3.11 lacks; every failure is an ``OSError`` with its errno."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 1 << 14, 1 << 18

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_LAST = 1, 2, 40
_CAPABILITY_VERSION_3 = 0x20080522
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Create new namespaces for this process; a PID namespace applies to its children only."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Mount a file system, or change the propagation of a mount."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _check(_libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]), f"mount {target}")


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the kernel to send this signal when the thread that created this process ends."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def drop_privileges() -> None:
    """Drop, for this process and its descendants, every root privilege over the machine.

    The capabilities to read and write other users' files stay, since a root user expects access to data sets.
    """
    kept = (1 << CAP_DAC_OVERRIDE) | (1 << CAP_DAC_READ_SEARCH)
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")
    for capability in range(CAP_LAST + 1):
        if not kept >> capability & 1:
            _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # a capability unknown to this kernel needs no dropping
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    held = _read_capabilities() & kept
    data = struct.pack("=6I", held & 0xFFFFFFFF, held & 0xFFFFFFFF, 0, held >> 32, held >> 32, 0)
    _check(_libc.capset(header, data), "capset")


def _read_capabilities() -> int:
    header, data = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), ctypes.create_string_buffer(24)
    _check(_libc.capget(header, data), "capget")
    _, low, _, _, high, _ = struct.unpack("=6I", data.raw)
    return int(low) | int(high) << 32


def bring_up_loopback() -> None:
    """Bring the loopback interface up; it is down in a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh22x", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(sock, _SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | _IFF_UP))
