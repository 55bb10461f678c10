"""The interfaces of this machine, of which a run listens at one."""

from __future__ import annotations

import ipaddress
import socket

import psutil

from runtime.errors import ConfigError


def interface_address(text: str | None) -> str:
    """The IPv4 address of one interface, given by it or by the interface's name.

    Raises :class:`ConfigError` for all interfaces at once, and for anything else.
    """
    given = f"launcher.listen={'null' if text is None else text}"
    try:
        address = ipaddress.IPv4Address(text or "")
    except ValueError:
        if known := _addresses_by_interface().get(text or ""):
            return known[0]
        raise ConfigError(f"{given}: name one interface of this machine, or its IPv4 address: {addresses()}") from None
    if address.is_unspecified or address.is_multicast:
        raise ConfigError(f"{given}: would listen to everybody; name one interface's address: {addresses()}")
    return str(address)


def addresses() -> str:
    """The IPv4 addresses of this machine, for messages."""
    found = [f"{one} ({name})" for name, several in _addresses_by_interface().items() for one in several]
    return ", ".join(found) or "none"


def _addresses_by_interface() -> dict[str, list[str]]:
    known = {
        name: [one.address for one in several if one.family == socket.AF_INET]
        for name, several in sorted(psutil.net_if_addrs().items())
    }
    return {name: several for name, several in known.items() if several}
