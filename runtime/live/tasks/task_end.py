"""The report of a task's end."""

from __future__ import annotations

import contextlib
import sys
import traceback


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
