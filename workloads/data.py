"""Arrays on disk, converted once and memory-mapped by every process, so that workers share their pages."""

from __future__ import annotations

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
    """A data file that is not there or of no use. The message is one line: the file, what is wrong, the cure."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


AugmentationKey = tuple[int, NDArray[np.int64], NDArray[np.int64]]
"""(seed, epoch of each, index of each) of training samples: what random pre-processing is keyed by, so that it repeats
itself whoever computes it."""


class Split(msgspec.Struct, frozen=True):
    """(inputs, targets) for training and for held-out evaluation; the first axis of each counts samples."""

    train: tuple[NDArray[Any], NDArray[Any]]
    test: tuple[NDArray[Any], NDArray[Any]]


NUMBERS = "iufb"
"""Kinds of dtypes."""
_NAMES = ("train_inputs", "train_targets", "test_inputs", "test_targets")


def is_stored(directory: Path) -> bool:
    """All four arrays are there (they appear together, by one rename)."""
    return all((directory / f"{name}.npy").is_file() for name in _NAMES)


@contextmanager
def appearing(directory: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name ``directory`` when it is complete; after an error nothing is left.

    When somebody else was faster, theirs stays.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = directory.with_name(f".{directory.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)  # of a process of this number that was killed
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
    """The four arrays, into a folder that is there."""
    for name, array in zip(_NAMES, (*split.train, *split.test), strict=True):
        np.save(directory / f"{name}.npy", array)


def store(directory: Path, split: Split) -> None:
    """Write the arrays; the directory appears under its name only when it is complete."""
    with appearing(directory) as partial:
        write(partial, split)


def load_array(directory: Path, name: str) -> NDArray[Any]:
    """Memory-map one array, copied where it is written to.

    Raises ``FileNotFoundError`` when it is not there, and :class:`DataError`, naming the file, when it is no such file.
    """
    path = directory / f"{name}.npy"
    try:
        array = np.load(path, mmap_mode="c")
    except (EOFError, ValueError):
        state = "is empty" if not path.stat().st_size else "is not a whole NumPy array"
        raise DataError(f"{path}: {state}") from None
    if not isinstance(array, np.ndarray):  # an archive of several
        array.close()
        raise DataError(f"{path}: is not a whole NumPy array")
    return array


def check_split(directory: Path, split: Split, input_shape: tuple[int, ...]) -> None:
    """Whether the arrays are of this kind of data at all.

    Raises :class:`DataError` for inputs and targets of different lengths, of none, or of other shapes of a sample.
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
    """Memory-map the arrays; raises ``FileNotFoundError`` when they are not there."""
    arrays = [load_array(directory, name) for name in _NAMES]
    return Split(train=(arrays[0], arrays[1]), test=(arrays[2], arrays[3]))
