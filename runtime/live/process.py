"""What ties the life of a process to that of the run."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with(parent_pid: int) -> None:
    """Get SIGKILL from the kernel when the thread that created this process ends; exit now if it already has.

    Set it before anything else: whatever kills the parent, and however, nothing of the run outlives it. Only the main
    thread may create processes, because the signal follows the creating *thread*.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def default_signals() -> None:
    """A forked task starts with the default reaction to every signal that its parent had changed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
