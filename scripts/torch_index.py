"""Which index of packages PyTorch is to be taken from: prints its address, or nothing for the usual one.

python scripts/torch_index.py auto      # the CPU build, where there is no NVIDIA GPU and its index can be reached
python scripts/torch_index.py URL       # that one; refused when it cannot be reached

On Linux the usual index has a build for CUDA that brings 3 GB of libraries. pip waits for an index that does not answer
with each package anew, so it is tried here first, for some seconds. Only Python's own modules are used: no other is
installed yet.
"""

from __future__ import annotations

import shutil
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
AUTO, USUAL = "auto", ""
PATIENCE_S = 5.0
DEVICES = Path("/dev")
GPUS = ("nvidia[0-9]*", "nvidiactl", "dxg")
"""Devices of NVIDIA's driver, and of Windows' GPUs in WSL."""


def main(argv: Sequence[str], reach: Callable[[str], str | None] | None = None) -> int:
    """Prints the address; the exit code is 2 for an index that was asked for and cannot be reached."""
    asked = argv[0].strip() if argv else AUTO
    look = reach or obstacle
    if asked == USUAL or (asked == AUTO and (sys.platform != "linux" or has_gpu())):
        return 0
    index = CPU_INDEX if asked == AUTO else asked
    why = look(index)
    if why is None:
        print(index)
        return 0
    if asked != AUTO:
        print(f"TORCH_INDEX={asked}: cannot be reached ({why}); leave it out, or give another", file=sys.stderr)
        return 2
    print(
        f"PyTorch's CPU build cannot be had ({index}: {why}), so the usual one is taken (TORCH_INDEX names another)",
        file=sys.stderr,
    )
    return 0


def has_gpu(devices: Path = DEVICES) -> bool:
    """Whether a CUDA build would be of use."""
    return any(any(devices.glob(name)) for name in GPUS) or shutil.which("nvidia-smi") is not None


def obstacle(index: str, patience_s: float = PATIENCE_S) -> str | None:
    """Why its page of PyTorch cannot be read; None if it can. Never takes longer than ``patience_s``."""
    if not index.startswith(("http://", "https://")):  # a directory, which pip looks into itself
        return None
    found: list[str | None] = []

    def look() -> None:
        try:
            with urllib.request.urlopen(f"{index.rstrip('/')}/torch/", timeout=patience_s) as page:
                page.read(1)
            found.append(None)
        except urllib.error.URLError as error:
            found.append(str(getattr(error, "reason", error)))
        except (OSError, ValueError) as error:
            found.append(str(error))

    thread = threading.Thread(target=look, daemon=True)  # a name that is not resolved waits without regard to time-outs
    thread.start()
    thread.join(patience_s)
    return found[0] if found else f"no answer in {patience_s:g} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
