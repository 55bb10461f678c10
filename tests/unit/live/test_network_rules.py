"""The emulated network's numbers and names, and messages to the kernel about a queue, without a kernel."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.cluster.hosts import MAX_HOSTS
from runtime.live.hosts import rules
from runtime.live.hosts.latency import route_to
from runtime.live.hosts.netlink import LinkRefused
from runtime.live.hosts.network import Network
from runtime.live.hosts.selftest import TOGETHER_BYTES_PER_S, _groups
from runtime.live.hosts.shaping import HTB, NETEM, ROOT, TBF, Queue, checked_rate

MBIT = 125_000.0
RATES = [MBIT * rate for rate in (0.0008, 0.01, 1, 50, 100, 300, 350, 370, 400, 700, 1000, 10_000)]
RUN_ID = "0123456789abcdef"


@pytest.mark.parametrize("rate", RATES)
def test_what_a_bucket_holds(rate: float) -> None:
    """Two frames at least, and never just as much as a host sends in one piece: measured, then 2 % to 6 % are lost."""
    burst = rules.burst_bytes(rate)
    segment = rules.frames_per_segment(rate) * rules.FRAME_BYTES
    piece = rules.FRAME_BYTES if burst < segment else segment
    assert burst >= 2 * rules.FRAME_BYTES
    assert (burst - piece) / rate >= 65e-6, "tokens that come while a timer is late would be lost"
    assert not segment <= burst < 1.3 * segment
    assert rate > 1000 * MBIT or burst < 0.017 * 1e6, "what it gives for nothing is a small part of a megabyte"
    assert rate > 100 * MBIT or burst < 0.035 * 1e5
    assert burst / rate < 2**32 * 64e-9, "the kernel's clock"


def test_the_slowest_link_and_the_latency_of_both_hosts_count() -> None:
    assert rules.frames_of_network([None, None]) is None
    assert rules.frames_of_network([None, 2500 * MBIT]) == 12
    assert rules.frames_of_network([10_000 * MBIT, 100 * MBIT]) == rules.MIN_FRAMES
    assert rules.frames_of_network([40_000 * MBIT]) == rules.MAX_FRAMES
    assert rules.MAX_FRAMES * rules.MTU_BYTES < 2**16
    latency_s = {"10.77.0.1": 0.001, "10.77.0.2": 0.0, "10.77.0.3": 0.005}
    route = route_to(6000, ("10.77.0.3", 5000), latency_s)
    assert route.delays_s["10.77.0.1"] == pytest.approx((0.006, 0.006))
    assert route.delays_s["10.77.0.2"] == pytest.approx((0.005, 0.005))
    assert route.delays_s["10.77.0.3"] == (0.0, 0.0), "nothing lies between a host and itself"
    assert route.other_s == (0.005, 0.005), "the laboratory is at the switch"
    assert _groups([100 * MBIT] * 5) == [[0, 1, 2, 3], [4]]
    assert _groups([1000 * MBIT, None, 10 * MBIT, 10 * MBIT, None]) == [[0], [1], [2, 3], [4]]
    assert _groups([]) == []
    assert TOGETHER_BYTES_PER_S < 125e6


def test_everybody_has_a_name_and_an_address_of_one_small_network() -> None:
    names = {rules.port_name(number, RUN_ID) for number in range(MAX_HOSTS)} | {rules.bridge_name(RUN_ID)}
    assert len(names) == MAX_HOSTS + 1
    assert max(map(len, names)) <= 15
    numbers = [*range(MAX_HOSTS), rules.LAB_NUMBER]
    addresses = [rules.address(number) for number in numbers]
    assert (addresses[0], addresses[-2], addresses[-1]) == ("10.77.0.1", "10.77.0.250", "10.77.0.254")
    assert len(set(addresses)) == len({rules.lladdr(number) for number in numbers}) == MAX_HOSTS + 1
    assert 0 < rules.group(RUN_ID) != rules.group(RUN_ID[::-1])


def test_a_run_id_or_numbers_of_hosts_that_are_none() -> None:
    for run_id in ("", "0123", "0123456789ABCDEF", "0123456789abcdeg", RUN_ID + "0", RUN_ID + "\n"):
        with pytest.raises(ValueError, match="16 hexadecimal digits"):
            rules.bridge_name(run_id)
    with pytest.raises(ValueError, match="numbered 0, 1, 2"):
        Network(RUN_ID, [(1, None), (0, None)])


class Told(dict[str, Any]):
    """A message of the kernel."""

    def get_nested(self, *path: str) -> Any:
        return self.get(path[-1])


class Kernel:
    """Keeps the messages, and answers like a kernel that enforces ``holds`` of what is requested."""

    def __init__(self, holds: float = 1.0) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.options: list[dict[str, Any]] = []
        self.holds = holds

    def tc(self, verb: str, kind: str | None = None, index: int = 0, handle: int = 0, **options: Any) -> list[Told]:
        self.calls.append((verb, kind, handle, options.get("parent")))
        self.options.append(options)
        parms = {"tbf": "TCA_TBF_PARMS", "htb": "TCA_HTB_PARMS"}.get(kind or "", "none")
        return [Told({parms: {"rate": round(options["rate"] * self.holds)}})] if "rate" in options else []

    def flush(self) -> list[tuple[Any, ...]]:
        calls, self.calls = self.calls, []
        return calls


def queue() -> Queue:
    return Queue(7, "link of host 3 out", sorts=True)


def test_a_queue_is_put_once_and_its_bucket_still_holds_what_waits() -> None:
    kernel, one = Kernel(), queue()
    assert one.set_rate(kernel, None) is None
    assert kernel.flush() == [], "no limit needs no queue"
    assert one.set_rate(kernel, 12.5e6) == 12.5e6
    assert kernel.flush() == [("add", "tbf", TBF, ROOT), ("add", "htb", HTB, TBF + 1)]
    assert one.set_rate(kernel, 1.25e6) == 1.25e6
    assert kernel.flush() == [("change", "tbf", TBF, ROOT)]
    assert one.set_rate(kernel, None) is one.rate_bytes_per_s is None
    assert kernel.flush() == [("change", "tbf", TBF, ROOT)], "taking it away would drop what waits in it"
    assert kernel.options[-1]["rate"] == rules.UNLIMITED_BYTES_PER_S
    assert all("latency" not in options for options in kernel.options)
    kernel, one = Kernel(), Queue(7, "link", sorts=False, frames=5)
    one.set_rate(kernel, 12.5e6)
    assert kernel.options[-1]["burst"] == rules.burst_bytes(12.5e6), "what never came whole was split"
    for rate in (125e6, 12.5e6, 1.25e6):
        one.set_rate(kernel, rate)
        assert kernel.options[-1]["burst"] >= 1.3 * 5 * rules.FRAME_BYTES
    with pytest.raises(
        LinkRefused, match=r"link of host 3 out: asked for 12500000 bytes/s, the kernel holds \[6250000\]"
    ):
        queue().set_rate(Kernel(holds=0.5), 12.5e6)


def test_a_peer_has_a_class_and_a_filter_on_its_address() -> None:
    kernel, one = Kernel(), queue()
    one.set_rate(kernel, 12.5e6)
    kernel.flush()
    assert one.set_peer_rate(kernel, 1, None) is None
    assert kernel.flush() == []
    assert one.set_peer_rate(kernel, 1, 1.25e6) == 1.25e6
    assert kernel.flush() == [("add-class", "htb", HTB + 2, HTB), ("add-filter", "u32", 0, HTB)]
    assert kernel.options[-1]["keys"] == ["0x0a4d0002/0xffffffff+16"]
    assert one.set_peer_rate(kernel, 1, None) is None
    assert kernel.flush() == [("change-class", "htb", HTB + 2, HTB)], "taking it away would drop what waits in it"
    kernel, one = Kernel(), queue()
    assert one.set_peer_rate(kernel, 0, 1.25e6) == 1.25e6
    assert [call[:2] for call in kernel.flush()] == [
        ("add", "tbf"),
        ("add", "htb"),
        ("add-class", "htb"),
        ("add-filter", "u32"),
    ]
    assert one.rate_bytes_per_s is None
    kernel, one = Kernel(), Queue(7, "link", sorts=True, turns={rules.turn(1)})
    one.set_rate(kernel, 12.5e6)
    one.set_peer_rate(kernel, 1, 1.25e6)
    filters = [options for options in kernel.options if "keys" in options]
    assert [one["prio"] for one in filters] == [2, 1], "its own is asked first"
    assert {options["quantum"] for options in kernel.options if "quantum" in options} == {rules.FRAME_BYTES}


def test_emptied_and_as_it_was() -> None:
    kernel, one = Kernel(), queue()
    one.drop_all(kernel)
    assert kernel.flush() == []
    one.set_rate(kernel, 12.5e6)
    one.set_peer_rate(kernel, 1, 1.25e6)
    one.set_peer_rate(kernel, 1, None)
    one.set_peer_rate(kernel, 2, 2.5e6)
    kernel.flush()
    one.drop_all(kernel)
    calls = kernel.flush()
    assert calls[:3] == [("del", None, TBF, ROOT), ("add", "tbf", TBF, ROOT), ("add", "htb", HTB, TBF + 1)]
    assert [call for call in calls if call[0] == "add-class"] == [("add-class", "htb", HTB + n, HTB) for n in (2, 3)]
    one.set_peer_rate(kernel, 1, 1e6)
    assert kernel.flush() == [("change-class", "htb", HTB + 2, HTB)]


def test_hosts_take_turns_in_both_queues_of_a_link() -> None:
    """By where packets go in a host's own queue, and by where they come from in the one before it."""
    for sorts, offset in ((True, 16), (False, 12)):
        kernel, one = Kernel(), Queue(7, "link", sorts=sorts, turns={rules.turn(0), rules.turn(2)})
        one.set_rate(kernel, 12.5e6)
        calls, first = kernel.flush(), HTB + 0x1000
        assert calls[:2] == [("add", "tbf", TBF, ROOT), ("add", "htb", HTB, TBF + 1)]
        turns = ((first + 1, 0x5_0000), (first + 3, 0x7_0000))
        each = [(("add-class", "htb", at, HTB), ("add", "pfifo", queue, at)) for at, queue in turns]
        assert calls[2:] == [call for two in each for call in (*two, ("add-filter", "u32", 0, HTB))]
        added = kernel.options[-6:]
        assert [one["quantum"] for one in added if "quantum" in one] == [rules.FRAME_BYTES] * 2, "a frame each"
        assert [one["limit"] for one in added if "limit" in one] == [rules.QUEUE_BYTES // rules.FRAME_BYTES] * 2
        assert [(one["keys"], one["target"]) for one in added if "keys" in one] == [
            ([f"0x00000001/0x0000000f+{offset}"], first + 1),
            ([f"0x00000003/0x0000000f+{offset}"], first + 3),
        ]
        one.drop_all(kernel)
        assert kernel.flush()[1:] == calls, "as it was"


def test_netem_goes_above_the_rate_in_the_kernels_units() -> None:
    kernel, one = Kernel(), queue()
    one.set_rate(kernel, 12.5e6)
    kernel.flush()
    one.set_delay(kernel, 0.0)
    assert kernel.flush() == []
    one.set_delay(kernel, 0.005)
    added = [("add", "tbf", TBF, NETEM + 1), ("add", "htb", HTB, TBF + 1)]
    assert kernel.flush() == [("replace", "netem", NETEM, ROOT), *added]
    assert [options["delay"] for options in kernel.options if "delay" in options] == [5000]
    one.set_delay(kernel, 0.0)
    one.set_rate(kernel, 1.25e6)
    assert kernel.flush() == [("change", "netem", NETEM, ROOT), ("change", "tbf", TBF, NETEM + 1)]
    from pyroute2 import IPBatch

    batch = IPBatch()
    one = Queue(7, "link", sorts=False)
    one.set_delay(batch, 0.005)
    said = bytes(batch.batch)
    batch.close()
    assert b"netem\0" in said
    ticks = round(0.005 / 64e-9)
    assert ticks.to_bytes(4, "little") in said


@pytest.mark.parametrize("rate", [0.0, 99.0, 2.0**32, float("inf"), float("nan")])
def test_a_rate_that_cannot_be_held(rate: float) -> None:
    with pytest.raises(LinkRefused, match=r"link of host 3: .* cannot be held; use 100 to"):
        checked_rate("link of host 3", rate)
    assert checked_rate("link", None) == 2**32 - 1
    assert checked_rate("link", 1000.6) == 1001
