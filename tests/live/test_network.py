"""The emulated network in a real kernel: who reaches whom, how fast, and that nothing of it outlives its process.

Cases run in a process of their own, which asserts (``tests/live/lab_cases.py``).
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from glob import glob
from pathlib import Path

import pytest

from runtime.containment import Isolation, obstacle
from runtime.live.hosts import netns, probe
from tests.live.lab_cases import CASES
from tests.support.other_users import NOBODY, programs
from tests.support.runs import ROOT, until

pytestmark = [pytest.mark.live, pytest.mark.alone, pytest.mark.timeout(300)]

USERS = pytest.mark.parametrize("user", [None, NOBODY], ids=["as we are", "as an ordinary user"])
OF_USERS = ("everybody_reaches_everybody", "the_kernel_holds_what_was_asked")
"""Cases that an ordinary user plays, too."""
WITH_PEERS = ("a_peers_rate_touches_that_peer_only", "hosts_that_take_turns_share_a_link_whoever_came_first")

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


_played: dict[int | None, dict[str, str]] = {}


def complaints(lab: Lab, name: str, user: int | None = None) -> str:
    """Of a case. All are played when the first is asked for, since a start takes longer than most."""
    if user not in _played:
        process = lab(*(CASES if user is None else OF_USERS), user=user)
        out, err = process.communicate(timeout=200)
        assert (process.returncode, err) == (0, ""), err
        _played[user] = json.loads(out)
    return _played[user][name]


@cache
def probe_report() -> dict[str, list[str] | None]:
    words = [sys.executable, "-m", "runtime.live.hosts.probe"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=20)
    report: dict[str, list[str] | None] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("name", CASES)
def test_a_network(lab: Lab, name: str) -> None:
    if name in WITH_PEERS and (lack := probe_report()["peers"]):
        pytest.skip(": ".join(lack))
    assert not complaints(lab, name)


@pytest.mark.parametrize("name", OF_USERS)
def test_a_network_of_an_ordinary_user(lab: Lab, name: str) -> None:
    assert not complaints(lab, name, NOBODY)


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
    until(lambda: not inodes & network_namespaces(), "their end", 2.0)
    assert sorted(os.listdir("/sys/class/net")) == interfaces


def network_namespaces() -> set[int]:
    """All that a process is in or holds open."""
    found = set()
    # a Path's glob raises for a process that ends meanwhile
    for path in [*glob("/proc/[0-9]*/ns/net"), *glob("/proc/[0-9]*/fd/*")]:
        try:
            target = os.readlink(path)
        except OSError:
            continue
        if target.startswith("net:["):
            found.add(int(target[5:-1]))
    return found


def test_the_probe_finds_what_the_kernel_has() -> None:
    """Else a fault of ours would look like a poor machine, and every test here be skipped."""
    built_in = kernel_options()
    if obstacle(Isolation.NETWORK) or not built_in:
        pytest.skip("no namespaces, or a kernel that does not tell how it was built")
    report = probe_report()
    assert set(report) == {"links", "peers", "netem"}
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


def test_the_probe_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(probe, "obstacle", lambda _: "Operation not permitted")
    probe.main()
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"links", "peers", "netem"}
    assert all("operation not permitted" in reason and "user namespaces" in cure for reason, cure in report.values())

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
