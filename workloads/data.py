"""Arrays on disk, converted once and memory-mapped by every process, so that workers share their pages."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray


class DataError(ValueError):
    """A data file that is missing or unusable. The message is one line: the file, what is wrong, the cure."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


AugmentationKey = tuple[int, NDArray[np.int64], NDArray[np.int64]]
"""(seed, epoch of each, index of each) of training samples: the key of random pre-processing, so that every process
repeats it. Written twice: backends hand it over, and neither side may import the other."""


class Split(msgspec.Struct, frozen=True):
    """(inputs, targets) for training and for held-out evaluation; the first axis of each counts samples."""

    train: tuple[NDArray[Any], NDArray[Any]]
    test: tuple[NDArray[Any], NDArray[Any]]


NUMBERS = "iufb"
"""numpy dtype kinds (``dtype.kind``) that count as numbers."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers that mean that there is no room for a file."""
_NAMES = ("train_inputs", "train_targets", "test_inputs", "test_targets")


def is_stored(directory: Path) -> bool:
    """Whether all four arrays exist (they appear together, by one rename)."""
    return all((directory / f"{name}.npy").is_file() for name in _NAMES)


@contextmanager
def appearing(directory: Path) -> Iterator[Path]:
    """A temporary folder to fill; it is renamed to ``directory`` when complete, and removed after an error.

    If another process was faster, its folder stays.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = directory.with_name(f".{directory.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)  # left by a killed process with this pid
    partial.mkdir()
    try:
        yield partial
        try:
            partial.rename(directory)
        except OSError:
            if not directory.is_dir() or {path.name for path in partial.iterdir()} - set(os.listdir(directory)):
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write(directory: Path, split: Split) -> None:
    """Write the four arrays into an existing folder."""
    for name, array in zip(_NAMES, (*split.train, *split.test), strict=True):
        np.save(directory / f"{name}.npy", array)


def store(directory: Path, split: Split) -> None:
    """Write the arrays; the directory appears under its name only when it is complete."""
    with appearing(directory) as partial:
        write(partial, split)


def new_array(path: Path, dtype: Any, shape: tuple[int, ...]) -> Any:
    """A new memory-mapped array that has its room on the disk.

    Raises ``OSError`` with the file's name if the disk is too full: to write to a map of a file that has no room would
    end the process by a signal.
    """
    array = np.lib.format.open_memmap(path, "w+", dtype, shape)
    if hasattr(os, "posix_fallocate"):  # macOS has none
        with path.open("r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno in FULL:  # other file systems have no room to take
                    raise OSError(error.errno, error.strerror, str(path)) from None
    return array


def load_array(directory: Path, name: str) -> NDArray[Any]:
    """Memory-map one array, copy-on-write.

    Raises ``FileNotFoundError`` if it does not exist, and :class:`DataError`, naming the file, if it is not an array.
    """
    path = directory / f"{name}.npy"
    try:
        array = np.load(path, mmap_mode="c")
    except (EOFError, ValueError):
        state = "is empty" if not path.stat().st_size else "is not a complete NumPy array"
        raise DataError(f"{path}: {state}") from None
    if not isinstance(array, np.ndarray):  # a .npz archive
        array.close()
        raise DataError(f"{path}: is not a complete NumPy array")
    return array


def check_split(directory: Path, split: Split, input_shape: tuple[int, ...]) -> None:
    """Check that the arrays are of this kind of data at all.

    Raises :class:`DataError` for inputs and targets of different or zero length, or of another shape per sample.
    """
    for part, (inputs, targets) in (("train", split.train), ("test", split.test)):
        if len(inputs) != len(targets) or not len(inputs):
            raise DataError(f"{directory}: {part} has {len(inputs)} inputs and {len(targets)} targets")
        if inputs.shape[1:] != input_shape:
            raise DataError(f"{directory}: {part} inputs have the shape {inputs.shape[1:]} instead of {input_shape}")
        for what, array in (("inputs", inputs), ("targets", targets)):
            if array.dtype.kind not in NUMBERS:
                raise DataError(f"{directory}: {part} {what} are {array.dtype}, and no numbers")


def load(directory: Path) -> Split:
    """Memory-map the arrays; raises ``FileNotFoundError`` if they do not exist."""
    arrays = [load_array(directory, name) for name in _NAMES]
    return Split(train=(arrays[0], arrays[1]), test=(arrays[2], arrays[3]))
