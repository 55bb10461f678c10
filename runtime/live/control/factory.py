"""Chooses the parts of a live job that depend on the places of its tasks and on the tasks that sum gradients."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from runtime.backends.devices.choice import CUDA
from runtime.core.membership import Membership
from runtime.live.control.agents import Agents
from runtime.live.control.following import LiveFollowers
from runtime.live.control.gpu_use import GpuMeter
from runtime.live.control.job_resources import JobSetup
from runtime.live.control.joined import JoinedMachines
from runtime.live.control.link_pacing import LinkPacing
from runtime.live.control.port import LivePort
from runtime.live.control.replica_port import NativePort, ReplicaPort
from runtime.live.control.settings import INSEPARABLE
from runtime.live.control.telemetry import Elsewhere, Sampler, read_here
from runtime.live.joining.site import SAVED
from runtime.live.transport.hub import Hub
from strategies.protocol import NodeId

if TYPE_CHECKING:
    from runtime.live.control.session import LiveSession


def make_pacing(setup: JobSetup, hub: Hub, agents: Agents, members: Membership) -> LinkPacing | None:
    """Of the links of machines that have joined; None: they are not disturbed."""
    site = setup.site

    def machine_of() -> dict[str, int]:
        return {str(node): site.nodes.index(agents.where(str(node))) for node in members.layout.nodes}

    def connected() -> list[NodeId]:
        return [key for key in hub.peers if key.role in ("worker", "server")]

    if not (setup.paces_links and site.link_bytes_per_s):
        return None
    return LinkPacing(site.link_bytes_per_s, machine_of, connected, hub.send)


def make_joined(setup: JobSetup, session: LiveSession) -> JoinedMachines:
    """The chooser of machines, where tasks run on machines that have joined."""
    members, tasks = session.supervisor.members, session.supervisor.tasks
    return JoinedMachines(
        setup.site, session.agents, setup.machines, session.injector, members, session.note, tasks, float(setup.threads)
    )


def make_port(setup: JobSetup, session: LiveSession) -> LivePort:
    """The port of servers, if no collective sums."""
    spec, hub, roster = setup.spec, session.hub, session.supervisor.roster
    saved_to = spec.save_parameters_to
    last_save = "" if saved_to is None else SAVED if setup.site.elsewhere else str(saved_to)
    given = (hub, setup.loop, roster, session.nodes, session, setup.schedule.delay_for, last_save)
    if spec.collective:
        return NativePort(*given) if spec.collective == INSEPARABLE else ReplicaPort(*given)
    return LivePort(*given, LiveFollowers(hub, roster, session) if spec.job.num_replicas else None)


def make_sampler(setup: JobSetup, session: LiveSession, readings: Elsewhere | None) -> Sampler:
    """``readings``: what agents elsewhere read; None: this process reads."""
    machines = setup.machines
    counters = None if machines.network is None else machines.network.counters
    read = read_here if readings is None else readings.read
    on_gpus = setup.spec.backend_spec.get("device") == CUDA and readings is None
    gpu_of = GpuMeter(setup.processes.gpus if on_gpus else (), os.environ)
    return Sampler(counters, machines.placement, session.allotter.own_limits, read, gpu_of)
