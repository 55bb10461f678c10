"""The role of a forked or cold-started process."""

from __future__ import annotations


def run_role(spec: object, buffers_fd: int, role: str, number: int, incarnation: int) -> None:
    """Run the task of this role."""
    from runtime.live.tasks.aggregator import aggregator_main
    from runtime.live.tasks.auxiliary import auxiliary_main
    from runtime.live.tasks.replica import replica_main
    from runtime.live.tasks.server import server_main
    from runtime.live.tasks.worker import worker_main
    from runtime.live.transport.auth import Identity
    from runtime.live.transport.task_spec import TaskSpec
    from strategies.protocol import AGGREGATOR

    assert isinstance(spec, TaskSpec)
    mains = {
        "worker": replica_main if spec.collective else worker_main,
        "server": server_main,
        AGGREGATOR: aggregator_main,
    }
    mains.get(role, auxiliary_main)(spec, Identity(role, number, incarnation), buffers_fd)
