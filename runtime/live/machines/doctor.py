"""Capabilities of this machine and user for live runs, found by trying: ``python run.py doctor``.

Every capability is tried in a child, in namespaces that end with it. The same tests guard every run: what a
configuration needs is tested before anything starts.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from runtime.containment import Isolation, is_linux, obstacle
from runtime.errors import print_error
from runtime.house import NAME, program, surroundings
from runtime.live.machines.mechanisms import Missing

PROBE_DEADLINE_S = 20.0
PROBED = ("namespaces", "cgroup_cpu", "cgroup_memory", "cpulimit")
"""Capabilities that matter where no hosts are emulated, which is what agents elsewhere say of their machine."""
USAGE = "usage: python run.py doctor [--cluster launcher=join|ray SETTINGS]"
HELP = f"""{USAGE}

Check what this machine can do for live runs: namespaces, quotas, links, GPUs. A row says what a capability is for, and
lines below the table say what is missing, why, and the cure.

--cluster waits for the agents of a launcher as a run with these settings would, and shows a row for each machine.

The exit code is 0 whatever is missing, 2 for invalid input or if machines are missing or do not agree with this one."""
WIDTH = 140
"""Columns of a table where nobody looks at a screen."""
FAKE = "backend.device=fake, kind gpu included, needs none"
USER_NAMESPACES = (
    "run as root, or allow user namespaces (sysctl user.max_user_namespaces=10000; on Ubuntu also "
    "kernel.apparmor_restrict_unprivileged_userns=0)"
)


class Capability(NamedTuple):
    """A capability that a run may need."""

    name: str
    what: str
    serves: str
    """The settings that need it."""
    look: Callable[[], Missing | None]


def _namespaces(isolation: Isolation) -> Missing | None:
    words = obstacle(isolation)
    return None if words is None else Missing(reason=f"no private namespaces ({words.lower()})", cure=USER_NAMESPACES)


@functools.cache
def _network_report() -> dict[str, list[str] | None]:
    """The report of the probe of emulated links, by capability: null, or reason and cure."""
    try:
        done = subprocess.run(
            program("runtime.live.hosts.probe", str(os.getpid())),
            env=surroundings(),
            capture_output=True,
            text=True,
            timeout=PROBE_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _find_unlinked(f"it took more than {PROBE_DEADLINE_S:g} s", "try again when the machine is less busy")
    if done.returncode:
        words = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        return _find_unlinked(words, "see python run.py doctor")
    report: dict[str, list[str] | None] = json.loads(done.stdout)
    return report


def _find_unlinked(words: str, cure: str) -> dict[str, list[str] | None]:
    return {key: [f"the probe of links failed ({words})", cure] for key in ("links", "peers", "netem")}


def _link(name: str) -> Missing | None:
    if (lack := _namespaces(Isolation.NETWORK)) is not None:
        return lack
    found = _network_report()[name]
    return None if found is None else Missing(reason=found[0], cure=found[1])


def _cgroup(controller: Literal["cpu", "memory"]) -> Missing | None:
    from runtime.live.machines.cgroups import CgroupUnavailable, find

    try:
        find(controller).probe()
    except CgroupUnavailable as error:
        return Missing(reason=error.reason, cure=error.cure)
    return None


def _realtime() -> Missing | None:
    from runtime.live.machines import ticks

    if (words := ticks.obstacle()) is None:
        return None
    if words == ticks.UNCOMPILED:
        return Missing(reason=words, cure="install a C compiler, then touch setup.py && make setup")
    return Missing(reason=f"no thread may have real-time priority ({words})", cure="run as root")


def _cpulimit() -> Missing | None:
    from injectors.actuators.cpulimit import MISSING, find_program

    reason, _, cure = MISSING.partition("; ")
    return None if find_program() else Missing(reason=reason, cure=cure)


def _gpu() -> Missing | None:
    from runtime.backends.devices.found import VISIBLE, num_devices, torch_cuda

    if torch_cuda() is None:
        return Missing(reason="the installed torch was built without CUDA", cure=f"install a build with it, or {FAKE}")
    if not num_devices():
        return Missing(reason=f"no NVIDIA GPU is visible (/dev/nvidia*, {VISIBLE})", cure=FAKE)
    return None


CAPABILITIES: dict[str, Capability] = {
    one.name: one
    for one in (
        Capability(
            "namespaces",
            "private processes, mounts, shared memory",
            "containment=auto",
            lambda: _namespaces(Isolation.PROCESSES),
        ),
        Capability("network", "private network", "cluster=hosts", lambda: _namespaces(Isolation.NETWORK)),
        Capability("links", "veth, bridge, tbf", "cluster=hosts, bandwidth, cut", lambda: _link("links")),
        Capability("peers", "htb classes, u32 filter", "bandwidth of link:a>b", lambda: _link("peers")),
        Capability("netem", "netem", "hosts.latency_ms (else by a relay)", lambda: _link("netem")),
        Capability("cgroup_cpu", "CPU quotas", "cpu_by=cgroup (else by duty cycles)", lambda: _cgroup("cpu")),
        Capability("cgroup_memory", "memory limits", "hosts.memory_mb", lambda: _cgroup("memory")),
        Capability("realtime", "real-time priority", "quotas to 0.5 ms (else to the kernel's tick)", _realtime),
        Capability("gpu", "an NVIDIA GPU, torch with CUDA", "backend.device=cuda, kind gpu", _gpu),
        Capability("cpulimit", "the program cpulimit", "cpu_by=cpulimit", _cpulimit),
    )
}


@functools.cache
def missing(name: str) -> Missing | None:
    """Why this machine or user lacks a capability; None if it works."""
    return CAPABILITIES[name].look()


def main(argv: Sequence[str]) -> int:
    """Print a table of all capabilities; the exit code is 0 whatever is missing, as a run may not need it."""
    if argv:
        if argv[0] in ("-h", "--help"):
            print(HELP)
            return 0
        return print_error(NAME, f"doctor: {argv[0]}: no such option; {USAGE}")
    if not is_linux():
        return print_error(
            NAME, f"doctor: live runs need Linux, and this is {sys.platform}; runtime=virtual works here"
        )
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:  # a file has no width, and a wrapped table is hard to search
        console.width = max(WIDTH, console.width)
    console.print(f"What {'root' if os.geteuid() == 0 else f'user {os.geteuid()}'} can do here, tried by doing it:")
    table = Table(box=None, show_header=False, padding=(0, 2))
    lacks = {one.name: missing(one.name) for one in CAPABILITIES.values()}
    for one in CAPABILITIES.values():
        here = "[red]no[/red]" if lacks[one.name] else "[green]works[/green]"
        table.add_row(here, one.name, one.what, f"for {one.serves}")
    console.print(table)
    for name, lack in lacks.items():
        if lack is not None:
            console.print(f"{name}: {lack.reason}; {lack.cure}", highlight=False, soft_wrap=True)
    return 0
