"""Set-up before TensorFlow runs: no log output, no accelerator, a bounded number of threads."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from runtime.errors import ConfigError

ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",  # accelerators are not supported
    "KERAS_BACKEND": "tensorflow",
}

UNNEEDED = ("matplotlib", "pandas", "PIL", "sklearn")
"""Optional packages that Keras imports if installed. They are not used here and take much of its import time."""


def import_tensorflow() -> None:
    """Import TensorFlow and Keras without output: until its logging is set up, TensorFlow writes to descriptor 2."""
    if "tensorflow" in sys.modules:
        return
    os.environ.update(ENVIRONMENT)
    with _quiet(), _hidden(UNNEEDED):
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
def _hidden(names: Sequence[str]) -> Iterator[None]:
    """Make these packages look uninstalled within the block, unless they have been imported before."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # Python treats None as "not installed"
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def start_tensorflow(num_threads: int) -> None:
    """Import TensorFlow and bound its threads; raises :class:`ConfigError` if it already runs with another number."""
    import_tensorflow()
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
