"""Before TensorFlow runs: silence, no accelerator, bounded threads."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from runtime.errors import ConfigError

ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",  # nobody has asked for one
    "KERAS_BACKEND": "tensorflow",
}

UNNEEDED = ("matplotlib", "pandas", "PIL", "sklearn")
"""What Keras imports if it is there, for what is not used here: much of the time that its import takes."""


def import_tensorflow() -> None:
    """Import TensorFlow and Keras, quietly: until its logging is set up it writes to descriptor 2 regardless."""
    if "tensorflow" in sys.modules:
        return
    os.environ.update(ENVIRONMENT)
    with _quiet(), _hidden(UNNEEDED):
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


@contextmanager
def _hidden(names: Sequence[str]) -> Iterator[None]:
    """Within, these packages seem not to be installed, unless they have been imported before."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is how Python says "not there"
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


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
