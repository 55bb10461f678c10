"""A task that starts cold: forked by the agent like any other, it executes a fresh interpreter.

For frameworks whose threads and locks do not survive a fork. ``exec`` keeps the state of the fork: process id,
parent, control groups, namespaces, dropped privileges (the bounding set), log, environment. It may not keep the
parent-death signal, which is requested again. The job comes on standard input, because it holds the run's secret.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import msgspec

from runtime.containment.process import die_with, keep_freed_memory
from runtime.house import program, surroundings
from runtime.importing import importing


def become_cold(spec: object, buffers_fd: int, role: str, number: int, incarnation: int) -> NoReturn:
    """Replace the forked child by a fresh interpreter."""
    job = os.memfd_create("stragglab-job", os.MFD_CLOEXEC)
    with os.fdopen(job, "wb", closefd=False) as file:
        file.write(msgspec.msgpack.encode(spec))
    os.lseek(job, 0, os.SEEK_SET)
    os.dup2(job, 0)
    if buffers_fd >= 0:
        os.set_inheritable(buffers_fd, True)
    words = [role, number, incarnation, buffers_fd, os.getppid()]
    os.execve(sys.executable, program("runtime.live.tasks.cold", *map(str, words)), surroundings())


def main() -> None:
    """Entry point of the new interpreter: imports the framework first, before it connects."""
    role, number, incarnation, buffers_fd, parent = sys.argv[1], *map(int, sys.argv[2:])
    die_with(parent)
    keep_freed_memory()
    from runtime.config.instantiate import instantiate
    from runtime.live.tasks.roles import run_role
    from runtime.live.tasks.task_end import tell_end
    from runtime.live.transport.task_spec import TaskSpec

    with open(0, "rb") as file:  # its end leaves descriptor 0 closed; nothing here reads it
        spec = msgspec.msgpack.decode(file.read(), type=TaskSpec)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with importing():
        instantiate(spec.backend).preload()
        instantiate(spec.task).preload()  # an import holds the interpreter: later, the heartbeat might not get through
    if buffers_fd >= 0:
        os.set_inheritable(buffers_fd, False)
    try:
        run_role(spec, buffers_fd, role, number, incarnation)
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is reported, and this process ends)
        os._exit(tell_end(error))


if __name__ == "__main__":
    main()
