"""Criteo's display advertising challenge (2014): was an advertisement clicked? 13 counts and 26 categorical fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from workloads.data import DataError, appearing, new_array
from workloads.datasets.base import About, Dataset, Facts, check_count
from workloads.datasets.files import HEAD_BYTES, check_head

if TYPE_CHECKING:
    import pandas as pd

NUM_INTEGERS, NUM_CATEGORIES = 13, 26
LINES = 45_840_617
"""Number of lines of train.txt; test.txt has no labels."""
HELD_OUT_EVERY = 10
MAX_BUCKETS = 2**24
"""Ids are stored as float32 like the numbers; larger ones would not be exact."""
FILE = "train.txt"
CHUNK_BYTES = 1 << 24
INTEGERS = [f"I{number}" for number in range(1, NUM_INTEGERS + 1)]
CATEGORIES = [f"C{number}" for number in range(1, NUM_CATEGORIES + 1)]


@final
@dataclass(frozen=True, kw_only=True)
class Criteo(Dataset):
    """Inputs float32 [N, 13 + 26], targets float32 [N] (1: clicked).

    A count x becomes log(1 + max(x, 0)), missing ones 0 (as in DLRM, Naumov et al. 2019; other work differs only in the
    offset). A category becomes its hash modulo ``buckets`` - 1, plus 1; missing ones 0. Every tenth line is held out:
    lines are in temporal order, so both parts cover all seven days (papers draw one in ten at random).
    """

    name = "criteo"
    about = About(
        what="45,840,617 displayed advertisements of seven days, clicked or not",
        licence="Criteo's own, non-commercial; not to be passed on",
        source="https://www.kaggle.com/c/criteo-display-ad-challenge (dac.tar.gz, unpack it)",
        files="train.txt",
    )

    buckets: int = 100_000

    def __post_init__(self) -> None:
        if not 2 <= self.buckets <= MAX_BUCKETS:
            raise ValueError(f"buckets={self.buckets}: must be from 2 to {MAX_BUCKETS}")

    @property
    def num_samples(self) -> int | None:
        """Nine of ten lines are training samples."""
        return LINES - LINES // HELD_OUT_EVERY if self.verify else None

    @property
    def facts(self) -> Facts:
        cardinalities = (self.buckets,) * NUM_CATEGORIES
        return Facts(input_shape=(NUM_INTEGERS + NUM_CATEGORIES,), num_dense=NUM_INTEGERS, cardinalities=cardinalities)

    def variant(self) -> str:
        """The number of buckets, on which ids depend."""
        return f"_{self.buckets}"

    def convert(self, raw: Path, directory: Path) -> None:
        """Count the lines, then convert them in one stream, so that the data need not fit into memory."""
        path = raw if raw.is_file() else raw / FILE
        if not path.is_file():
            raise DataError(f"{path}: does not exist; {self.cure}")
        lines = count_lines(path, self.cure)
        if self.verify:
            check_count(f"{path}: lines", lines, LINES, self.cure)
        sizes = {"test": lines // HELD_OUT_EVERY, "train": lines - lines // HELD_OUT_EVERY}
        if not sizes["test"]:
            raise DataError(f"{path}: {lines} lines are too few to hold one in {HELD_OUT_EVERY} out; {self.cure}")
        with appearing(directory) as partial:
            parts = {part: Writer(partial, part, size) for part, size in sizes.items()}
            line = 0
            for inputs, targets in self._chunks(path):
                held_out = np.arange(line, line + len(targets)) % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
                parts["test"].add(inputs[held_out], targets[held_out])
                parts["train"].add(inputs[~held_out], targets[~held_out])
                line += len(targets)

    def _chunks(self, path: Path) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        import pyarrow as pa

        try:
            line = 0
            for batch in _open(path):
                frame = batch.to_pandas()
                wrong = np.flatnonzero(~frame["label"].isin((0, 1)))
                if len(wrong):
                    label = frame["label"].iloc[wrong[0]]
                    raise DataError(f"{path}: line {line + wrong[0] + 1} has the label {label}; {self.cure}")
                yield encode(frame, self.buckets), frame["label"].to_numpy(np.float32)
                line += len(frame)
        except pa.ArrowInvalid as error:  # it names the row: of columns "Expected 40", of numbers "conversion error"
            raise DataError(f"{path}: is not in Criteo's format ({_short(error)}); {self.cure}") from error


def encode(frame: pd.DataFrame, buckets: int) -> NDArray[np.float32]:
    """Counts and categories of these lines as float32 [N, 13 + 26]."""
    from pandas.util import hash_array

    encoded = np.zeros((len(frame), NUM_INTEGERS + NUM_CATEGORIES), dtype=np.float32)
    for at, name in enumerate(INTEGERS):
        encoded[:, at] = np.log1p(frame[name].fillna(0).clip(lower=0).to_numpy(np.float64))
    for at, name in enumerate(CATEGORIES, start=NUM_INTEGERS):
        hashes = hash_array(frame[name].to_numpy(object), categorize=True)
        ids = 1 + hashes % np.uint64(buckets - 1)
        encoded[:, at] = np.where(frame[name].to_numpy(object) == "", 0, ids)
    return encoded


class Writer:
    """The two arrays of a part, filled front to back; their size is known in advance."""

    def __init__(self, directory: Path, part: str, size: int) -> None:
        shape = (size, NUM_INTEGERS + NUM_CATEGORIES)
        self.inputs: Any = new_array(directory / f"{part}_inputs.npy", np.float32, shape)
        self.targets: Any = new_array(directory / f"{part}_targets.npy", np.float32, (size,))
        self.filled = 0

    def add(self, inputs: NDArray[np.float32], targets: NDArray[np.float32]) -> None:
        """Write the next samples."""
        to = self.filled + len(targets)
        self.inputs[self.filled : to], self.targets[self.filled : to] = inputs, targets
        self.filled = to


def count_lines(path: Path, cure: str) -> int:
    """Number of lines, including a last one without a newline. Raises :class:`DataError` for anything but text."""
    lines, last = 0, b"\n"
    with path.open("rb") as file:
        check_head(file.read(HEAD_BYTES), str(path), cure)
        file.seek(0)
        while chunk := file.read(CHUNK_BYTES):
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    return lines + (last != b"\n")


def _open(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    columns = {"label": pa.int64(), **dict.fromkeys(INTEGERS, pa.int64()), **dict.fromkeys(CATEGORIES, pa.string())}
    return csv.open_csv(
        path,
        csv.ReadOptions(column_names=list(columns), use_threads=False, block_size=CHUNK_BYTES),
        csv.ParseOptions(delimiter="\t", quote_char=False, double_quote=False, ignore_empty_lines=False),
        csv.ConvertOptions(column_types=columns, null_values=[""], strings_can_be_null=False),
    )


def _short(error: Exception) -> str:
    """The error without the full line, which can be long."""
    return str(error).splitlines()[0][:120]
