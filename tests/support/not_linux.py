"""Run a program as on a Mac, ``python tests/support/not_linux.py PROGRAM ...``: without what Linux alone has.

Python's own modules and the libraries are imported first, since they look at the system, too: the former here, the
latter by :mod:`tests.support.prepared`.
"""

from __future__ import annotations

import builtins
import importlib
import os
import runpy
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

STANDARD = (
    "multiprocessing",
    "platform",
    "selectors",
    "shutil",
    "ssl",
    "subprocess",
    "tempfile",
    "urllib.request",
    "uuid",
)
MISSING = {
    os: """O_TMPFILE MFD_CLOEXEC memfd_create sched_getaffinity sched_setaffinity setns unshare pidfd_open pipe2 eventfd
        posix_fadvise posix_fallocate splice copy_file_range O_PATH fdatasync accept4 setresuid setresgid getresuid
        getresgid prlimit CLONE_NEWNS CLONE_NEWNET CLONE_NEWPID CLONE_NEWUSER CLONE_NEWIPC""",
    select: "epoll",
    signal: "pidfd_send_signal SIGPWR SIGRTMIN SIGRTMAX sigwaitinfo sigtimedwait",
    socket: """AF_NETLINK AF_PACKET AF_ALG AF_VSOCK SO_BINDTODEVICE SO_MARK SOCK_CLOEXEC SOCK_NONBLOCK TCP_USER_TIMEOUT
        TCP_QUICKACK TCP_CONGESTION SO_PEERCRED SCM_CREDENTIALS""",
}
NOWHERE = ("/proc", "/sys", "/dev/shm")


def without_linux() -> None:
    for module, names in MISSING.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for module, name in ((builtins, "open"), (os, "open"), (os, "stat"), (os, "scandir"), (os, "listdir")):
        setattr(module, name, _hiding(getattr(module, name)))
    sys.platform = "darwin"
    sys.modules["pyroute2"] = None  # type: ignore[assignment]  # importing it fails


def _hiding(call: Any) -> Any:
    def called(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
        if isinstance(path, str | Path) and str(path).startswith(NOWHERE):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return call(path, *args, **kwargs)

    return called


if __name__ == "__main__":
    for library in STANDARD:
        importlib.import_module(library)
    without_linux()
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
