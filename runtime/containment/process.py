"""What ties the life of a process to that of the run."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def die_with(parent_pid: int) -> None:
    """Get SIGKILL from the kernel when the thread that created this process ends; exit now if it already has.

    Set it before anything else: whatever kills the parent, and however, nothing of the run outlives it. Only the main
    thread may create processes, because the signal follows the creating *thread*.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def keep_freed_memory() -> None:
    """Let this process and its forks reuse what they free instead of giving it back to the kernel (glibc).

    Otherwise the activations of every iteration come from fresh pages: 3,000 page faults for a small CNN, up to twice
    the time, and iterations that differ by a third.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 1 << 30)


def default_signals() -> None:
    """A forked task starts with the default reaction to every signal that its parent had changed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
