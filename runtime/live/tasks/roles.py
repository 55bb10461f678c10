"""The role of a forked or cold-started process, and the report of its end."""

from __future__ import annotations

import contextlib
import sys
import traceback


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


def tell_end(error: BaseException) -> int:
    """Write a task's error to its log, if there is room; returns its exit code, which always arrives."""
    from runtime.errors import DEVICE_FULL, FAILED, NO_SPACE, is_device_full, is_full, no_process, no_space

    full = is_full(error)
    with contextlib.suppress(OSError):
        if isinstance(error, BlockingIOError | RuntimeError) and (words := no_process(error)):
            print(words, file=sys.stderr)
        elif isinstance(error, OSError) and full:
            print(no_space(error), file=sys.stderr)
        else:
            traceback.print_exception(error)
        sys.stdout.flush()
        sys.stderr.flush()
    if full:
        return NO_SPACE
    return DEVICE_FULL if is_device_full(error) else FAILED
