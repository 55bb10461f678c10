"""The emulated network in a real kernel: who reaches whom, how fast, and that nothing of it outlives its process.

Cases run in a process of their own (``tests/live/lab_cases.py``). Rates are held to bounds that only a broken limit
misses; how exact they are is measured by hand.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from runtime.containment import Isolation, obstacle
from runtime.live.hosts import netns, probe
from tests.live.lab_cases import CASES
from tests.support.other_users import NOBODY, programs
from tests.support.runs import ROOT

pytestmark = [pytest.mark.live, pytest.mark.alone, pytest.mark.timeout(300)]

USERS = pytest.mark.parametrize("user", [None, NOBODY], ids=["as we are", "as an ordinary user"])
OF_USERS = ("reach", "rates")
"""Cases that an ordinary user plays, too."""
EVERYBODY = [f"10.77.0.{number}" for number in (1, 2, 3, 254)]

Lab = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def lab(tmp_path: Path, leak_oracle: None) -> Iterator[Lab]:
    if words := obstacle(Isolation.NETWORK):
        pytest.skip(f"no namespaces here: {words}")
    if lack := probe_report()["links"]:
        pytest.skip(": ".join(lack))
    with programs(tmp_path) as start:

        def begin(*names: str, user: int | None = None) -> subprocess.Popen[str]:
            paths = where_pyroute2_is() if user is not None else []
            return start("-m", "tests.live.lab_cases", *names, user=user, paths=paths)

        yield begin


def where_pyroute2_is() -> list[str]:
    spec = importlib.util.find_spec("pyroute2")
    assert spec is not None
    assert spec.origin is not None
    return [str(Path(spec.origin).parents[1])]


_played: dict[int | None, dict[str, tuple[int, str, str]]] = {}


def outcome(lab: Lab, name: str, user: int | None = None) -> Any:
    """What a case prints. All cases are played when the first is asked for, since a start takes longer than most."""
    if user not in _played:
        process = lab(*(CASES if user is None else OF_USERS), user=user)
        out, err = process.communicate(timeout=200)
        assert (process.returncode, err) == (0, ""), err
        _played[user] = json.loads(out)
    code, out, err = _played[user][name]
    assert (code, err) == (0, ""), err
    return json.loads(out)


@cache
def probe_report() -> dict[str, list[str] | None]:
    words = [sys.executable, "-m", "runtime.live.hosts.probe"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=20)
    report: dict[str, list[str] | None] = json.loads(done.stdout)
    return report


def need(name: str) -> None:
    if lack := probe_report()[name]:
        pytest.skip(": ".join(lack))


# ---- connected -------------------------------------------------------------------------------------------------------


@USERS
def test_everybody_reaches_everybody(lab: Lab, user: int | None) -> None:
    heard = outcome(lab, "reach", user)
    assert sorted(heard) == sorted([a, b] for a in EVERYBODY for b in EVERYBODY)


def test_every_host_has_ports_and_a_loopback_of_its_own(lab: Lab) -> None:
    assert outcome(lab, "hosts_share_nothing") == [True, True]


def test_nothing_is_said_that_nobody_asked_for(lab: Lab) -> None:
    assert outcome(lab, "silence") == [[0, 0]] * 3


def test_counters_tell_what_passed_each_link_and_no_other(lab: Lab) -> None:
    (out_0, in_0), (out_1, in_1), idle = outcome(lab, "counted")["counters"]
    assert out_0 == in_1 > 300_000
    assert in_0 == out_1 < 100_000
    assert idle == [0, 0]


# ---- rates -----------------------------------------------------------------------------------------------------------


@USERS
def test_the_kernel_holds_what_was_asked(lab: Lab, user: int | None) -> None:
    for asked, received, *held in outcome(lab, "rates", user):
        if asked is None:
            assert received is None
            assert held in ([], [2**32 - 1] * 2)
        else:
            assert received == pytest.approx(asked, abs=1.0)
            assert held == [received, received]


def test_data_passes_at_the_rate_whoever_limits_it(lab: Lab) -> None:
    """Faster would be no limit; slower than a third would be a broken one."""
    found = outcome(lab, "payload")
    assert len(found) == 6
    for way, part in found.items():
        assert 0.3 < part < 1.05, f"{way}: {found}"


def test_a_peers_rate_touches_that_peer_only(lab: Lab) -> None:
    need("peers")
    found = outcome(lab, "peers")
    assert 1.2 < found.pop("0>1") < 4.4
    for pair, mbits in found.items():
        assert 12.0 < mbits < 44.0, f"{pair}: {found}"


def test_hosts_that_take_turns_share_a_link_whoever_came_first(lab: Lab) -> None:
    """As packets come, all that the first one has sent passes before anything of the second."""
    need("peers")
    found = outcome(lab, "shared")
    for way in ("out", "in"):
        assert found[f"{way}, as they come"] == 60
        assert found[f"{way}, in turn"] < 45, found


def test_a_cut_of_the_rate_to_a_tenth_does_not_collapse(lab: Lab) -> None:
    """With a limit on latency in place of bytes, next to nothing passes in the first 0.3 s."""
    found = outcome(lab, "slowed")
    assert found["before"] > 0.3
    assert 0.3 < found["first 0.3 s"] < 3.0, found
    assert 0.3 < found["next 0.3 s"] < 1.5, found
    assert found["after"] > 0.3
    assert found["sent again"] == 0, "nothing under way is dropped"


def test_a_fast_link_that_is_throttled_still_passes_what_waits_in_it(lab: Lab) -> None:
    """Segments of several frames that a smaller bucket could not hold would wait forever."""
    found = outcome(lab, "slowed_from_fast")
    assert found["before"] > 0.1
    assert all(0.3 < found[f"at {rate}"] < 2.0 for rate in (250, 100, 10)), found


def test_cut_off_and_back(lab: Lab) -> None:
    found = outcome(lab, "cut")
    everybody = (0, 1, 2, None)
    pairs = [[a, b] for a in everybody for b in everybody if a != b]
    assert found["before"] == found["after"] == pairs
    assert found["while"] == [pair for pair in pairs if 1 not in pair]
    assert found["late"] == 0, "what was on its way in is lost"
    assert found["connection"], "it lives"
    assert found["rates"] == [20 * 125_000.0] * 2, "set while it was cut"


def test_what_cannot_be_done_is_refused_and_changes_nothing(lab: Lab) -> None:
    found = outcome(lab, "refused")
    for name in ("slow", "fast"):
        assert "link of host 1" in found[name]
        assert "use 100 to" in found[name]
    assert "name two hosts" in found["itself"]
    if probe_report()["netem"]:
        assert "netem: refused by the kernel" in found["netem"]
    assert found["still"] == str([1.25e6] * 2)


# ---- the self-test ---------------------------------------------------------------------------------------------------


def test_the_self_test_passes_what_is_well(lab: Lab) -> None:
    checks = outcome(lab, "self_tested")
    assert sorted((host, out) for host, out, *_ in checks) == [
        (host, out) for host in range(3) for out in (False, True)
    ]
    for _, _, asked, found in checks:
        assert found > 0
        if asked is not None:
            assert found < 1.3 * asked


def test_the_self_test_catches_a_burst_below_the_mtu(lab: Lab) -> None:
    words = outcome(lab, "self_test_of_a_link_that_passes_nothing")
    assert words.startswith("link of host 2 (1250000 bytes/s, burst 1400 bytes): 0 of ")


def test_the_self_test_catches_a_limit_that_is_not_kept(lab: Lab) -> None:
    words = outcome(lab, "self_test_of_a_limit_that_is_not_kept")
    assert words.startswith("link of host 1 (625000 bytes/s, ")
    assert "the limit is not kept" in words


def test_the_self_test_catches_a_link_that_is_cut(lab: Lab) -> None:
    assert "link of host 0" in outcome(lab, "self_test_of_a_cut_link")


# ---- the relay, between hosts ----------------------------------------------------------------------------------------


def test_relayed_between_hosts_over_their_links(lab: Lab) -> None:
    found = outcome(lab, "relayed")
    assert 0.04 <= found["round trip of 0"] < 1.0, "10 ms of the one host and 10 ms of the other, there and back"
    assert 0.02 <= found["round trip of 2"] < 1.0
    (out_0, _), (_, in_1), (out_2, _) = found["counters"]
    assert out_0 > 100_000 < out_2
    assert in_1 > 200_000, "both transfers pass the server's own link"
    assert found["code"] == 0


# ---- what is left ----------------------------------------------------------------------------------------------------


def test_it_holds_one_descriptor_for_a_host_and_starts_nothing(lab: Lab) -> None:
    found = outcome(lab, "what_it_holds")
    assert found["descriptors"] <= 8 + 6
    assert found["threads"] == 1
    assert found["children"] == ""
    assert found["after"] == 0
    assert found["interfaces"] == []


def test_a_start_that_fails_takes_nothing_of_others_with_it(lab: Lab) -> None:
    found = outcome(lab, "a_broken_start_leaves_nothing")
    assert "File exists" in found["words"]
    assert (found["left"], found["reached"], found["closed"]) == (0, True, 0)


@USERS
def test_killed_and_gone(lab: Lab, user: int | None) -> None:
    """The namespaces of the hosts, and with them their interfaces, as they can be seen from outside."""
    interfaces = sorted(os.listdir("/sys/class/net"))
    process = lab("stay", user=user)
    assert process.stdout is not None
    inodes = set(json.loads(process.stdout.readline()))
    assert len(inodes) == 3
    assert inodes <= network_namespaces()
    process.send_signal(signal.SIGKILL)
    process.wait(5)
    deadline = time.monotonic() + 2.0
    while left := inodes & network_namespaces():
        assert time.monotonic() < deadline, left
        time.sleep(0.02)
    assert sorted(os.listdir("/sys/class/net")) == interfaces


def network_namespaces() -> set[int]:
    """All that a process is in or holds open."""
    found = set()
    for path in [*Path("/proc").glob("[0-9]*/ns/net"), *Path("/proc").glob("[0-9]*/fd/*")]:
        try:
            target = os.readlink(path)
        except OSError:
            continue
        if target.startswith("net:["):
            found.add(int(target[5:-1]))
    return found


# ---- the probe -------------------------------------------------------------------------------------------------------


def test_the_probe_reports_every_capability() -> None:
    report = probe_report()
    assert set(report) == {"links", "peers", "netem"}
    for lack in report.values():
        assert lack is None or (len(lack) == 2 and all(lack))


def test_the_probe_finds_what_the_kernel_has() -> None:
    """Else a fault of ours would look like a poor machine, and every test here be skipped."""
    built_in = kernel_options()
    if obstacle(Isolation.NETWORK) or not built_in:
        pytest.skip("no namespaces, or a kernel that does not tell how it was built")
    report = probe_report()
    for name, options in {"links": ("VETH", "BRIDGE", "NET_SCH_TBF"), "peers": ("NET_SCH_HTB", "NET_CLS_U32")}.items():
        if built_in.issuperset(options):
            assert report[name] is None
    if "NET_SCH_NETEM" in built_in:
        assert report["netem"] is None


def kernel_options() -> set[str]:
    """Names of what is built into this kernel, for good."""
    try:
        lines = gzip.decompress(Path("/proc/config.gz").read_bytes()).decode().splitlines()
    except OSError:
        return set()
    return {line[len("CONFIG_") : -len("=y")] for line in lines if line.endswith("=y")}


def test_the_probe_without_namespaces(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(probe, "obstacle", lambda _: "Operation not permitted")
    probe.main()
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"links", "peers", "netem"}
    assert all("operation not permitted" in reason and "user namespaces" in cure for reason, cure in report.values())


def test_the_probe_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(1, "unshare: Operation not permitted")

    monkeypatch.setattr(probe, "new_namespace", refuse)
    lack = probe.namespace()
    assert lack is not None
    assert "not permitted" in lack.reason
    assert "max_user_namespaces" in lack.cure
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert probe.report()["peers"] == ("pyroute2 is not installed", "pip install pyroute2")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_namespace_is_made_and_visited_without_moving_there() -> None:
    before = os.stat("/proc/thread-self/ns/net").st_ino
    fd = netns.new_namespace()
    try:
        assert os.fstat(fd).st_ino != before
        with netns.inside(fd):
            assert os.stat("/proc/thread-self/ns/net").st_ino == os.fstat(fd).st_ino
        with pytest.raises(RuntimeError), netns.inside(fd):
            raise RuntimeError
        assert os.stat("/proc/thread-self/ns/net").st_ino == before
    finally:
        os.close(fd)
    with pytest.raises(OSError, match="setns: Bad file descriptor"):
        netns.enter(fd)
