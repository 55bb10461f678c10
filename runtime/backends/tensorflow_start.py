"""Set-up before TensorFlow runs: no log output, one device, exact arithmetic, a bounded number of threads."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from runtime.backends.devices.choice import CPU, CUDA
from runtime.backends.devices.found import VISIBLE
from runtime.errors import ConfigError

ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
NO_DEVICE = {VISIBLE: "-1"}
FIRST_GPU = "/GPU:0"
"""TensorFlow's name of the only device that a task's process sees."""

UNNEEDED = ("matplotlib", "pandas", "PIL", "sklearn")
"""Optional packages that Keras imports if installed. They are not used here and take much of its import time."""


def import_tensorflow(device: str = CPU) -> None:
    """Import TensorFlow and Keras without output: until its logging is set up, TensorFlow writes to descriptor 2."""
    if "tensorflow" in sys.modules:
        return
    os.environ.update(ENVIRONMENT | (NO_DEVICE if device == CPU else {}))
    with _quiet(), _hide(UNNEEDED):
        import keras
        import tensorflow  # noqa: F401

        keras.config.disable_traceback_filtering()


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop what is written to standard error, unless the block ends with an error."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        except BaseException:
            said.seek(0)
            os.write(kept, said.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextmanager
def _hide(names: Sequence[str]) -> Iterator[None]:
    """Make these packages look uninstalled within the block, unless they have been imported before."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # Python treats None as "not installed"
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def use_gpu(tensorflow: Any) -> str:
    """Let this process compute on its GPU, before anything else does; returns the device's name.

    Kernels are deterministic and in full float32, memory is taken as it is needed, since other tasks use the device,
    too. Raises :class:`ConfigError` if there is none.
    """
    found = tensorflow.config.list_physical_devices("GPU")
    if not found:
        raise ConfigError(
            f"backend.device={CUDA}: TensorFlow finds no GPU it can use (its libraries of CUDA may be missing: "
            "pip install 'tensorflow[and-cuda]'); use backend.device=cpu"
        )
    tensorflow.config.experimental.enable_op_determinism()
    tensorflow.config.experimental.enable_tensor_float_32_execution(False)
    tensorflow.config.experimental.set_memory_growth(found[0], True)
    return FIRST_GPU


def start_tensorflow(num_threads: int, device: str = CPU) -> str:
    """Import TensorFlow and bound its threads; returns the name of the device to compute on, empty for the CPU.

    Raises :class:`ConfigError` if it already runs with another number of threads.
    """
    import_tensorflow(device)
    import tensorflow as tf

    threading = tf.config.threading
    try:
        threading.set_intra_op_parallelism_threads(num_threads)
        threading.set_inter_op_parallelism_threads(num_threads)
    except RuntimeError:
        raise ConfigError(
            f"backend.num_threads={num_threads}: TensorFlow runs with "
            f"{threading.get_intra_op_parallelism_threads()} in this process already; start another run.py"
        ) from None
    return use_gpu(tf) if device == CUDA else ""
