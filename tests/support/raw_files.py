"""Small data sets in their original formats, byte for byte, made here (no file of anybody's is shipped)."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from workloads.datasets.adult import Adult
from workloads.datasets.base import Dataset
from workloads.datasets.cifar10 import Cifar10
from workloads.datasets.criteo import Criteo
from workloads.datasets.fashion_mnist import FashionMnist
from workloads.datasets.imagenet import ImageNet
from workloads.datasets.wikitext2 import WikiText2

CIFAR = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "saw", "<unk>", "there")
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


def cifar_batch(name: str, count: int = 8) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """(labels [count], pixels [count, 3, 32, 32]), different in every batch."""
    rng = np.random.default_rng(CIFAR.index(name))
    pixels = rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    return rng.integers(0, 10, count, dtype=np.uint8), pixels


def cifar_binary(folder: Path) -> None:
    """``data_batch_1.bin``: label, then red, green and blue planes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in CIFAR:
        labels, pixels = cifar_batch(name)
        records = np.concatenate([labels[:, None], pixels.reshape(len(labels), -1)], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())


def cifar_pickles(folder: Path) -> None:
    """``data_batch_1``, as Python 2's cPickle wrote it with protocol 2."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in CIFAR:
        (folder / name).write_bytes(python2_pickle(name))


def python2_pickle(name: str) -> bytes:
    """{batch_label, labels, data, filenames}, instruction by instruction."""
    labels, pixels = cifar_batch(name)
    files = b"]q\x05(" + b"".join(_short(f"image_{at}.png") for at in range(len(labels))) + b"e"
    return b"".join(
        [
            b"\x80\x02}q\x01(",
            _short("batch_label") + b"q\x02" + _short(f"{name} of 6"),
            _short("labels") + b"q\x03]q\x04(" + b"".join(b"K" + bytes([label]) for label in labels) + b"e",
            _short("data") + _python2_array(pixels.reshape(len(labels), -1)),
            _short("filenames") + files,
            b"u.",
        ]
    )


def _short(text: str) -> bytes:
    return b"U" + bytes([len(text)]) + text.encode()


def _python2_array(array: NDArray[np.uint8]) -> bytes:
    rows, columns = array.shape
    head = b"cnumpy.core.multiarray\n_reconstruct\nq\x06cnumpy\nndarray\nq\x07K\x00\x85U\x01b\x87Rq\x08"
    dtype = b"cnumpy\ndtype\nq\x09U\x02u1K\x00K\x01\x87Rq\x0a(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"M" + struct.pack("<H", rows) + b"M" + struct.pack("<H", columns) + b"\x86"
    content = b"T" + struct.pack("<i", array.size) + array.tobytes()
    return head + b"(K\x01" + shape + dtype + b"\x89" + content + b"tb"


def cifar_png(folder: Path) -> None:
    """The npm package: one image per row of 1,024 pixels in RGB, labels apart."""
    folder.mkdir(parents=True, exist_ok=True)
    batches = {name: cifar_batch(name) for name in CIFAR}
    for name, (labels, pixels) in batches.items():
        rows = pixels.transpose(0, 2, 3, 1).reshape(len(labels), 1024, 3)
        Image.fromarray(rows, "RGB").save(folder / f"{name}.png")
    train = [int(label) for name in CIFAR[:5] for label in batches[name][0]]
    (folder / "train_lables.json").write_text(json.dumps(train))
    (folder / "test_lables.json").write_text(json.dumps([int(label) for label in batches["test_batch"][0]]))


def idx(array: NDArray[np.uint8]) -> bytes:
    """An IDX file of bytes."""
    return bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", size) for size in array.shape) + array.tobytes()


def fashion_mnist(folder: Path, *, packed: bool = True) -> None:
    """Twelve and six images."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 12), ("t10k", 6)):
        rng = np.random.default_rng(count)
        contents = {
            f"{part}-images-idx3-ubyte": idx(rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)),
            f"{part}-labels-idx1-ubyte": idx(rng.integers(0, 10, count, dtype=np.uint8)),
        }
        for name, content in contents.items():
            path = folder / (f"{name}.gz" if packed else name)
            path.write_bytes(gzip.compress(content) if packed else content)


def wikitext2(folder: Path, suffix: str = "txt") -> None:
    """Three texts of WORDS, tokenised, with empty lines and headings as the original has them."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, lines in (("train", 30), ("valid", 8), ("test", 9)):
        rng = np.random.default_rng(lines)
        text = " \n = The Cat = \n".replace("The Cat", "the cat") if part == "train" else " \n"
        text += " " + " ".join(WORDS) + " \n" if part == "train" else ""
        text += "".join(" " + " ".join(rng.choice(WORDS, 9)) + " \n" for _ in range(lines))
        name = f"{part}.{suffix}" if suffix == "txt" else f"wiki.{part}.{suffix}"
        (folder / name).write_text(text, encoding="utf-8")


def criteo_line(rng: np.random.Generator) -> str:
    """Label, 13 counts and 26 categories; some of either are missing."""
    counts = ["" if rng.random() < 0.2 else str(rng.integers(-2, 500)) for _ in range(13)]
    categories = ["" if rng.random() < 0.1 else f"{rng.integers(0, 2**32):08x}" for _ in range(26)]
    return "\t".join([str(rng.integers(0, 2)), *counts, *categories])


def criteo(folder: Path, lines: int = 40) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(lines)
    (folder / "train.txt").write_text("".join(criteo_line(rng) + "\n" for _ in range(lines)))


ADULT_TRAIN = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, Cuba, <=50K
50, ?, 83311, Masters, 14, Married-civ-spouse, ?, Husband, Black, Male, 0, 0, 13, United-States, >50K
28, Private, 338409, HS-grad, 9, Divorced, Sales, Wife, Other, Female, 0, 1902, 60, Hong, <=50K

"""
ADULT_TEST = """\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Tech-support, Own-child, Black, Male, 0, 0, 40, ?, <=50K.
38, Private, 89814, HS-grad, 9, Widowed, Farming-fishing, Husband, White, Male, 0, 0, 50, Peru, >50K.

"""


def adult(folder: Path) -> None:
    """``adult.data`` and ``adult.test`` with the latter's own first line and dots (invented people)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adult.data").write_text(ADULT_TRAIN)
    (folder / "adult.test").write_text(ADULT_TEST)


def imagenet(folder: Path) -> None:
    """Two classes, JPEG and PNG, of several sizes and modes."""
    for part, count in (("train", 3), ("val", 1)):
        for number, name in enumerate(("n01440764", "n01443537")):
            own = folder / part / name
            own.mkdir(parents=True, exist_ok=True)
            for at in range(count):
                colour = (250, 5, 5) if number == 0 else (5, 5, 250)
                image = Image.new("RGB", (40 + 10 * at, 30), colour)
                image.save(own / f"{name}_{at}.{'JPEG' if at % 2 == 0 else 'png'}")
            grey = Image.new("L", (20, 33), 128)
            grey.save(own / f"{name}_grey.JPEG")


SMALL: dict[str, tuple[Callable[[Path], None], Callable[[str], Dataset]]] = {
    "cifar10": (cifar_binary, lambda raw: Cifar10(raw_dir=raw, verify=False)),
    "fashion_mnist": (fashion_mnist, lambda raw: FashionMnist(raw_dir=raw, verify=False)),
    "wikitext2": (wikitext2, lambda raw: WikiText2(raw_dir=raw, verify=False, sequence_length=5)),
    "criteo": (criteo, lambda raw: Criteo(raw_dir=raw, verify=False, buckets=50)),
    "adult": (adult, lambda raw: Adult(raw_dir=raw, verify=False)),
    "imagenet": (
        imagenet,
        lambda raw: ImageNet(raw_dir=raw, verify=False, image_size=16, num_classes=2),
    ),
}
"""How the files of each are made, and the data set that reads them from a folder."""
