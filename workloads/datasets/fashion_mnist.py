"""Fashion-MNIST: 70,000 grey images of 28 x 28 pixels in ten classes (Xiao, Rasul, Vollgraf 2017), as IDX files."""

from __future__ import annotations

import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from workloads import data
from workloads.data import AugmentationKey, Split
from workloads.datasets.base import About, Dataset, Facts, labels
from workloads.datasets.files import RawFiles
from workloads.datasets.images import Colours, normalise

CLASSES = 10
SHAPE = (1, 28, 28)
NUM_TRAIN = 60_000
SHA256 = {  # of the uncompressed files, since compression differs (Debian repacks). Computed from Debian's package
    # dataset-fashion-mnist 0.0~git20200523.55506a9-1; the publishers' README lists MD5 sums of their .gz only.
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
COLOURS = Colours((0.2860,), (0.3530,))
"""Mean and standard deviation of the training set."""
GZIP = b"\x1f\x8b"


@final
@dataclass(frozen=True, kw_only=True)
class FashionMnist(Dataset):
    """Inputs uint8 [N, 1, 28, 28] on disk, normalised float32 in a batch; targets int64 [N]."""

    name = "fashion_mnist"
    about = About(
        what="70,000 grey images of 28 x 28 pixels in ten classes of clothing",
        licence="MIT (Zalando SE)",
        source="https://github.com/zalandoresearch/fashion-mnist (here: Debian package dataset-fashion-mnist)",
        files="train-images-idx3-ubyte, train-labels-idx1-ubyte and the two t10k- files, with or without .gz",
        fetched=True,
    )
    usual_places = ("/usr/share/datasets/fashion-mnist",)

    @property
    def num_samples(self) -> int | None:
        return NUM_TRAIN if self.verify else None

    @property
    def facts(self) -> Facts:
        return Facts(input_shape=SHAPE, num_classes=CLASSES)

    def convert(self, raw: Path, directory: Path) -> None:
        files = RawFiles(raw, self.cure)
        data.store(directory, Split(train=self._part(files, "train"), test=self._part(files, "t10k")))

    def batch_inputs(self, inputs: NDArray[Any], key: AugmentationKey | None) -> NDArray[Any]:
        return normalise(inputs, COLOURS)

    def _part(self, files: RawFiles, part: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        names = f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
        images, classes = self._array(files, names[0], 3), self._array(files, names[1], 1)
        if images.shape[1:] != SHAPE[1:]:
            raise files.error(names[0], f"holds images of {images.shape[1:]} pixels instead of {SHAPE[1:]}")
        if len(images) != len(classes):
            raise files.error(names[1], f"holds {len(classes):,} labels for {len(images):,} images")
        if classes.size and classes.max() >= CLASSES:
            raise files.error(names[1], f"holds the label {classes.max()}, which is not in 0..{CLASSES - 1}")
        return images[:, None], labels(classes)

    def _array(self, files: RawFiles, bare: str, dimensions: int) -> NDArray[np.uint8]:
        name = bare if bare in files else f"{bare}.gz"
        content = files.read(name)
        try:
            content = gzip.decompress(content) if content.startswith(GZIP) else content
            array = read_idx(content, dimensions)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise files.error(name, str(error)) from error
        if self.verify:
            files.check_sha256(name, content, SHA256[bare])
        return array


def read_idx(content: bytes, dimensions: int) -> NDArray[np.uint8]:
    """The array of bytes in an IDX file: 0, 0, 8 (bytes), dimensions, then each size in 4 big-endian bytes.

    Source: LeCun's MNIST page. Raises ``ValueError``.
    """
    if content[:4] != bytes([0, 0, 8, dimensions]):
        raise ValueError(f"is no IDX file of bytes in {dimensions} dimensions")
    head = 4 + 4 * dimensions
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, head, 4))
    if len(content) != head + math.prod(shape):
        raise ValueError(f"has {len(content):,} bytes instead of {head + math.prod(shape):,}: truncated, or not whole")
    return np.frombuffer(content, dtype=np.uint8, offset=head).reshape(shape)
