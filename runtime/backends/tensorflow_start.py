"""Before TensorFlow runs: silence, no accelerator, bounded threads."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.errors import ConfigError

ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",  # nobody has asked for one
    "KERAS_BACKEND": "tensorflow",
}


def import_tensorflow() -> None:
    """Import TensorFlow and Keras, quietly: before its logging is set up it writes to descriptor 2 whatever one sets."""
    if "tensorflow" in sys.modules:
        return
    os.environ.update(ENVIRONMENT)
    with _quiet():
        import keras
        import tensorflow  # noqa: F401

        keras.config.disable_traceback_filtering()


@contextmanager
def _quiet() -> Iterator[None]:
    """What is written to standard error is dropped, unless it ends with an error."""
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


def start_tensorflow(num_threads: int) -> None:
    """Import it and bound its threads; raises :class:`ConfigError` when it runs here with another number already."""
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
