"""Choose the package index for PyTorch: prints its address, or nothing for the default index.

python -m scripts.packaging.torch_index auto      # the CPU build, without an NVIDIA GPU and if its index is reachable
python -m scripts.packaging.torch_index URL       # this index; refused if it is unreachable

On Linux the default index has a CUDA build that brings 3 GB of libraries. pip waits for an unresponsive index with
every package again, so the index is tried here first, for a few seconds. Only Python's standard library is used, as
nothing else is installed yet.
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
"""Device files of NVIDIA's driver, and of Windows' GPUs in WSL."""


def main(argv: Sequence[str], reach: Callable[[str], str | None] | None = None) -> int:
    """Print the address; the exit code is 2 for a requested index that is unreachable."""
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
        f"PyTorch's CPU build is not available ({index}: {why}); using the default one (TORCH_INDEX names another)",
        file=sys.stderr,
    )
    return 0


def has_gpu(devices: Path = DEVICES) -> bool:
    """Whether a CUDA build would be useful."""
    return any(any(devices.glob(name)) for name in GPUS) or shutil.which("nvidia-smi") is not None


def obstacle(index: str, patience_s: float = PATIENCE_S) -> str | None:
    """Why its PyTorch page cannot be read; None if it can. Never takes longer than ``patience_s``."""
    if not index.startswith(("http://", "https://")):  # a directory, which pip reads itself
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

    thread = threading.Thread(target=look, daemon=True)  # name resolution ignores time-outs
    thread.start()
    thread.join(patience_s)
    return found[0] if found else f"no answer in {patience_s:g} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
