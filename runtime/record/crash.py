"""An unexpected error in one job of several: its traceback goes to that job's log, one line to the summary."""

from __future__ import annotations

import errno
import traceback
from pathlib import Path

LOG = Path("logs", "coordinator.log")


def log_crash(error: Exception, run_dir: Path) -> str:
    """Append the traceback to ``logs/coordinator.log`` of a job's record; returns one line about the error."""
    path, see = run_dir / LOG, f" (see {LOG})"
    try:
        path.parent.mkdir(exist_ok=True)
        if path.is_symlink() or path.parent.is_symlink():
            raise OSError(errno.ELOOP, "is a link, and would be written through", str(path))
        with path.open("a") as file:
            file.writelines(traceback.format_exception(error))
    except OSError:  # the directory may be what was wrong
        see = ""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" at {Path(frame.filename).name}:{frame.lineno}" for frame in last)
    return " ".join(f"{type(error).__name__}{where}: {error}{see}".split())
