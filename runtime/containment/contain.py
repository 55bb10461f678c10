"""Moves a run into its own namespaces: when the first process inside ends, the kernel ends everything else.

::

    run.py (outside: waits, forwards signals, returns the run's exit code)
      +- init (process 1 inside: reaps orphans, dies with the outer process)
           +- run.py (inside: the run itself, in its own process group)
                +- agent, tasks, ...

SIGKILL of the outer process kills init by its parent-death signal, and the end of init is the end of its PID namespace:
of every process in it, however detached. Network namespaces with their interfaces and queues, mounts, and
``/dev/shm`` go with the last process that uses them. Nothing depends on a handler or on ``finally``.

Where the kernel refuses namespaces, parent-death signals alone tie the processes together
(``runtime.containment.process``).
"""

from __future__ import annotations

import contextlib
import enum
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from runtime.containment import linux, pids

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
STAND_STILL, GO_ON = signal.SIGUSR1, signal.SIGUSR2
"""Pipe from the outer process to init; its end tells init that the outer process died."""
HANDLED = (*FORWARDED, STAND_STILL, GO_ON, signal.SIGTSTP)

Mask = set[int]
"""Set of blocked signals."""

_inside: list[Isolation] = []
"""The isolation that this process is inside of, if any."""


class Isolation(enum.IntEnum):
    """The isolation that a run needs; each level includes the ones before."""

    NONE = 0
    PROCESSES = 1
    """PID and mount namespaces, private shared memory."""
    NETWORK = 2
    """A network namespace, too."""


def inside() -> Isolation:
    """Isolation of this process."""
    return _inside[-1] if _inside else Isolation.NONE


def contain(isolation: Isolation) -> None:
    """Continue inside; the calling process stays outside and never returns from here.

    Only the main thread of a process without other threads may call it, before it has children. Raises ``OSError``
    where the kernel refuses; :func:`obstacle` detects that beforehand.
    """
    if isolation <= inside():
        return
    sys.stdout.flush()
    sys.stderr.flush()
    pids.remember_outside()
    _end_helper_threads()
    enter_namespaces(isolation)
    lifeline = os.pipe()
    # block signals until the handlers are installed: one of them would kill the outer process without init noticing
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    inner = os.fork()
    if inner:
        os.close(lifeline[0])
        _wait_outside(inner, mask)
    os.close(lifeline[1])
    linux.die_with_parent()
    if select.select([lifeline[0]], [], [], 0)[0]:  # the parent died before the parent-death signal was set
        os._exit(1)
    os.close(lifeline[0])
    set_up(isolation)
    run = os.fork()
    if run:
        _be_init(run, mask)
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _inside.append(isolation)


def _end_helper_threads() -> None:
    """End the threads that numpy's BLAS may have started, by forking: a threaded process gets no new user namespace."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def obstacle(isolation: Isolation) -> str | None:
    """Why :func:`contain` would fail here, determined by trying it in a child process; None if it works."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _attempt(isolation, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        words = pipe.read()
    os.waitpid(child, 0)
    return words or None


def _attempt(isolation: Isolation, writing: int) -> NoReturn:
    """In a child: create namespaces and a first process in them that sets them up."""
    try:
        enter_namespaces(isolation)
        if os.fork() == 0:
            set_up(isolation)
        else:
            os.waitpid(-1, 0)
    except OSError as error:
        os.write(writing, (error.strerror or str(error)).encode())
    finally:
        os._exit(0)


def enter_namespaces(isolation: Isolation) -> None:
    """Namespaces for the children of this process, and the network for itself; an ordinary user is root inside."""
    flags = linux.CLONE_NEWPID | linux.CLONE_NEWNS | linux.CLONE_NEWIPC
    if isolation is Isolation.NETWORK:
        flags |= linux.CLONE_NEWNET
    if os.geteuid() == 0:
        linux.unshare(flags)
        return
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(flags | linux.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def set_up(isolation: Isolation) -> None:
    """Private mounts: ``/proc`` of these processes, shared memory that ends with them; and a loopback interface."""
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    safe = linux.MS_NOSUID | linux.MS_NODEV
    linux.mount("proc", "/proc", "proc", safe | linux.MS_NOEXEC)
    linux.mount("tmpfs", "/dev/shm", "tmpfs", safe, "mode=1777")
    if isolation is Isolation.NETWORK:
        linux.bring_up_loopback()


# ---- outside ---------------------------------------------------------------------------------------------------------


def _wait_outside(init: int, mask: Mask) -> NoReturn:
    """Forward signals, and exit as the run exits.

    The run has its own process group, so a Ctrl-C reaches it through this process, and only once. Init forwards signals
    to the run, since the run's process id is not known out here.
    """
    _hand_on(lambda number: os.kill(init, number))
    signal.signal(signal.SIGTSTP, lambda *_: _suspend(init))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os._exit(exit_code(os.waitpid(init, 0)[1]))


def _suspend(init: int) -> None:
    """Ctrl-Z: stop everything inside, then this process; ``fg`` resumes this process first."""
    os.kill(init, STAND_STILL)
    os.kill(os.getpid(), signal.SIGSTOP)
    os.kill(init, GO_ON)


def exit_code(status: int) -> int:
    """Exit code by the shell's convention: 128 + signal for a killed process."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _hand_on(kill: Callable[[int], None]) -> None:
    def handle(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended, and waitpid will report it
            kill(number)

    for number in FORWARDED:
        signal.signal(number, handle)


# ---- inside ----------------------------------------------------------------------------------------------------------


def _be_init(run: int, mask: Mask) -> NoReturn:
    """Process 1: reap orphans; exit when the run ends, which ends every other process inside."""
    os.setpgid(0, 0)
    _hand_on(lambda number: os.kill(run, number))
    signal.signal(STAND_STILL, lambda *_: os.killpg(run, signal.SIGSTOP))
    signal.signal(GO_ON, lambda *_: os.killpg(run, signal.SIGCONT))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == run:
            os._exit(exit_code(status))
