"""The queue of one interface: its rate, its delay, lower rates to single peers, and turns of all peers.

::

    (netem 3: where the kernel adds a delay)
      tbf 1:      the link's rate
        htb 2:    traffic to single peers in classes of their own; where hosts are to take turns, traffic to all others
                  in classes, too; other traffic passes straight through

Everything but the delay exists from the first limit on and is only changed afterwards: removing a queue would
drop what waits in it. So "no limit" is then a rate that no link here reaches.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from runtime.live.hosts import rules
from runtime.live.hosts.netlink import LinkRefused, refusals

ROOT = 0xFFFF_FFFF
TBF = 0x1_0000
HTB = 0x2_0000
NETEM = 0x3_0000
FIRST_CLASS = 0x1
ETHERTYPE_IP = 0x0800
DESTINATION_OFFSET_BYTES = 16
"""Offset of the destination's address in an IPv4 header."""
NETEM_QUEUE_PACKETS = 1_000_000
"""Bytes in flight are rate x delay: 100 ms of 10 Gbit/s are 83 000 frames."""
NETEM_UNITS_PER_S = 1_000_000
SOURCE_OFFSET_BYTES = 12
FIRST_TURN = 0x1000
"""Number of the first class that takes turns; numbers of single peers' classes are lower."""
FIRST_TURN_QUEUE = 0x4_0000
"""Handle of the queue of the first of these."""
QUANTUM_BYTES = 60_000
"""Quantum of htb, by which classes take turns; it does not affect their rates."""
OWN_RATES, TURNS = 1, 2
"""Priorities of filters: which are asked first."""


class Queue:
    """The queue of interface ``index``; ``link`` names it in messages; ``sorts``: whether peers can have own rates.

    ``frames``: most frames of a segment. ``turns``: classes (:func:`rules.turn`) of the hosts that this queue serves in
    turn, a frame each, by where packets go, or by where they come from if it does not sort; none: packets pass as they
    come. Every method takes a netlink socket of the interface's namespace.
    """

    def __init__(
        self, index: int, link: str, *, sorts: bool, frames: int | None = None, turns: Collection[int] = ()
    ) -> None:
        self.index, self.link, self.sorts, self._turns = index, link, sorts, sorted(set(turns))
        self._frames = rules.MAX_FRAMES if frames is None else frames
        self._holds_segments = False
        """Whether whole segments may be queued: the current or an earlier bucket has admitted them."""
        self.rate_bytes_per_s: float | None = None
        """The enforced rate; None: no limit."""
        self._present = False
        """Whether there is a tbf."""
        self._delayed = False
        self._peers: dict[int, float | None] = {}

    # ---- rate --------------------------------------------------------------------------------------------------------

    def set_rate(self, ip: Any, bytes_per_s: float | None) -> float | None:
        """Set the rate; returns what the kernel enforces, None for no limit. Raises :class:`LinkRefused`."""
        if bytes_per_s is None and not self._present:
            return None
        held = self._put_tbf(ip, "change" if self._present else "add", bytes_per_s)
        if not self._present:
            self._present = True
            self._sort(ip)
        self.rate_bytes_per_s = None if bytes_per_s is None else held
        return self.rate_bytes_per_s

    def _put_tbf(self, ip: Any, verb: str, bytes_per_s: float | None) -> float:
        rate = checked_rate(self.link, bytes_per_s)
        burst = rules.burst_bytes(rate)
        if self._holds_segments:
            burst = max(burst, rules.burst_for(self._frames, rate))
        self._holds_segments = self._holds_segments or burst >= self._frames * rules.FRAME_BYTES
        with refusals(f"{self.link}: rate {rate} bytes/s"):
            told = ip.tc(
                verb,
                "tbf",
                self.index,
                TBF,
                parent=NETEM + FIRST_CLASS if self._delayed else ROOT,
                rate=rate,
                burst=burst,
                limit=rules.QUEUE_BYTES,
            )
        return self._check(told, "TCA_TBF_PARMS", rate)

    def _sort(self, ip: Any) -> None:
        """Add an htb for classes below the tbf. Traffic in none of them passes at once."""
        if self.sorts or self._turns:
            with refusals(f"{self.link}: htb"):
                ip.tc("add", "htb", self.index, HTB, parent=TBF + FIRST_CLASS, default=0)
        for turn in self._turns:
            with refusals(f"{self.link}: turns of hosts"):
                self._take_turns(ip, turn)

    def _take_turns(self, ip: Any, turn: int) -> None:
        """A class without limit of its own: the link's tbf takes one frame from each that has any."""
        number, unlimited = HTB + FIRST_TURN + turn, rules.UNLIMITED_BYTES_PER_S
        ip.tc("add-class", "htb", self.index, number, parent=HTB, quantum=rules.FRAME_BYTES, **_htb_rate(unlimited))
        queue = FIRST_TURN_QUEUE + 0x1_0000 * turn
        ip.tc("add", "pfifo", self.index, queue, parent=number, limit=rules.QUEUE_BYTES // rules.FRAME_BYTES)
        offset = DESTINATION_OFFSET_BYTES if self.sorts else SOURCE_OFFSET_BYTES
        self._filter(ip, number, TURNS, f"0x{turn:08x}/0x{rules.NUM_TURNS - 1:08x}+{offset}")

    def _filter(self, ip: Any, number: int, priority: int, match: str) -> None:
        ip.tc(
            "add-filter",
            "u32",
            self.index,
            parent=HTB,
            prio=priority,
            protocol=ETHERTYPE_IP,
            target=number,
            keys=[match],
        )

    def _check(self, told: Any, parms: str, asked: int) -> float:
        held = [message.get_nested("TCA_OPTIONS", parms) for message in told]
        rates = [one["rate"] for one in held if one is not None]
        if rates != [asked]:
            raise LinkRefused(f"{self.link}: asked for {asked} bytes/s, the kernel holds {rates or 'nothing'}")
        return float(asked)

    # ---- single peers ------------------------------------------------------------------------------------------------

    def set_peer_rate(self, ip: Any, peer: int, bytes_per_s: float | None) -> float | None:
        """Limit the traffic to the host ``peer``, within the limit of the link."""
        assert self.sorts, "only a host's own end sorts by peer"
        if peer not in self._peers and bytes_per_s is None:
            return None
        if not self._present:
            self._put_tbf(ip, "add", None)
            self._present = True
            self._sort(ip)
        held = self._put_class(ip, peer, bytes_per_s)
        self._peers[peer] = None if bytes_per_s is None else held
        return self._peers[peer]

    def _put_class(self, ip: Any, peer: int, bytes_per_s: float | None) -> float:
        known, number = peer in self._peers, HTB + FIRST_CLASS + peer
        rate = checked_rate(self.link, bytes_per_s)
        with refusals(f"{self.link}: rate {rate} bytes/s to {rules.address(peer)}"):
            told = ip.tc(
                "change-class" if known else "add-class",
                "htb",
                self.index,
                number,
                parent=HTB,
                quantum=rules.FRAME_BYTES if self._turns else QUANTUM_BYTES,
                **_htb_rate(rate),
            )
            if not known:
                octets = bytes(int(part) for part in rules.address(peer).split("."))
                self._filter(ip, number, OWN_RATES, f"0x{octets.hex()}/0xffffffff+{DESTINATION_OFFSET_BYTES}")
                self._peers[peer] = None
        return self._check(told, "TCA_HTB_PARMS", rate)

    # ---- delay, and the queue itself ---------------------------------------------------------------------------------

    def set_delay(self, ip: Any, seconds: float) -> None:
        """Delay every packet, before the rate limit; needs netem. The first call drops what is queued."""
        if not self._delayed and not seconds:
            return
        with refusals(f"{self.link}: delay {seconds:g} s by netem"):
            ip.tc(
                "change" if self._delayed else "replace",  # a kernel that has no netem then leaves the rate in place
                "netem",
                self.index,
                NETEM,
                parent=ROOT,
                delay=round(seconds * NETEM_UNITS_PER_S),
                limit=NETEM_QUEUE_PACKETS,
            )
        if not self._delayed:
            self._delayed = True
            self._again(ip)

    def drop_all(self, ip: Any) -> None:
        """Drop all queued packets."""
        if self._present:
            with refusals(f"{self.link}: emptying its queue"):
                ip.tc("del", index=self.index, handle=TBF, parent=NETEM + FIRST_CLASS if self._delayed else ROOT)
            self._again(ip)

    def _again(self, ip: Any) -> None:
        """Restore rate and peers after the queue was removed."""
        if not self._present:
            return
        self._put_tbf(ip, "add", self.rate_bytes_per_s)
        self._sort(ip)
        peers, self._peers = self._peers, {}
        for peer, rate in peers.items():
            self._put_class(ip, peer, rate)
            self._peers[peer] = rate


def _htb_rate(rate: int) -> dict[str, int]:
    """Fields of a class with this rate, bytes per second."""
    burst = rules.burst_bytes(rate)
    return {"rate": rate, "burst": burst, "cburst": burst}


def checked_rate(link: str, bytes_per_s: float | None) -> int:
    """A rate as the kernel counts it: whole bytes per second, 32 bits. Raises :class:`LinkRefused`."""
    if bytes_per_s is None:
        return rules.UNLIMITED_BYTES_PER_S
    if not rules.LOWEST_BYTES_PER_S <= bytes_per_s <= rules.UNLIMITED_BYTES_PER_S:
        raise LinkRefused(
            f"{link}: {bytes_per_s:g} bytes/s cannot be held; use {rules.LOWEST_BYTES_PER_S} to "
            f"{rules.UNLIMITED_BYTES_PER_S:.2e} (34 Gbit/s), no limit (null), or cut the link"
        )
    return round(bytes_per_s)
