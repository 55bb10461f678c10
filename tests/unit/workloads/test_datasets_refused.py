"""Invalid files are refused with one line that names them, before anything appears under the data folder."""

from __future__ import annotations

import gzip
import json
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reading.pickles import read_pickle
from tests.support import raw_files
from tests.support.raw_files import SMALL
from workloads.data import DataError
from workloads.datasets import criteo
from workloads.datasets.base import Dataset
from workloads.datasets.cifar10 import Cifar10
from workloads.datasets.wikitext2 import WikiText2

Break = Callable[[Path], None]


def refusal(dataset: Dataset, tmp_path: Path) -> str:
    """What is said; nothing was converted."""
    with pytest.raises(DataError) as refused:
        dataset.prepare(str(tmp_path / "data"))
    assert not (tmp_path / "data").exists() or list((tmp_path / "data").iterdir()) == []
    assert "\n" not in str(refused.value)
    return str(refused.value)


def write(name: str, content: bytes | str) -> Break:
    return lambda raw: (raw / name).write_bytes(content if isinstance(content, bytes) else content.encode()) and None


def remove(name: str) -> Break:
    return lambda raw: (raw / name).unlink()


def cut(name: str, left: int) -> Break:
    return lambda raw: write(name, (raw / name).read_bytes()[:left])(raw)


def line(name: str, number: int, change: Callable[[str], str]) -> Break:
    def act(raw: Path) -> None:
        lines = (raw / name).read_text().splitlines()
        lines[number - 1] = change(lines[number - 1])
        (raw / name).write_text("\n".join(lines) + "\n")

    return act


def bad_label(raw: Path) -> None:
    content = bytearray((raw / "data_batch_4.bin").read_bytes())
    content[3073] = 10
    (raw / "data_batch_4.bin").write_bytes(content)


CASES: dict[str, tuple[str, Break, str]] = {
    "missing": ("cifar10", remove("data_batch_3.bin"), r"data_batch_3\.bin: does not exist"),
    "truncated": ("cifar10", cut("test_batch.bin", 3072), r"test_batch\.bin: has 3,072 bytes.*truncated"),
    "label": ("cifar10", bad_label, r"data_batch_4\.bin: holds a label that is not in 0\.\.9"),
    "pointer": ("cifar10", write("data_batch_1.bin", raw_files.LFS_POINTER), r"data_batch_1\.bin: is a Git-LFS poi"),
    "foreign archive": ("cifar10", write("more.tar.gz", b"none"), r"more\.tar\.gz: truncated, or no archive"),
    "foreign idx": (
        "fashion_mnist",
        write("train-labels-idx1-ubyte.gz", gzip.compress(b"hello")),
        r"train-labels-idx1-ubyte\.gz: is no IDX file of bytes in 1 dimensions",
    ),
    "truncated gzip": ("fashion_mnist", cut("train-images-idx3-ubyte.gz", 5000), r"images-idx3-ubyte\.gz: .*end"),
    "labels without images": (
        "fashion_mnist",
        write("t10k-labels-idx1-ubyte", raw_files.idx(np.zeros(7, np.uint8))),
        r"holds 7 labels for 6 images",
    ),
    "unknown word": ("wikitext2", line("valid.txt", 3, lambda _: "a dog"), r"valid\.txt: line 3 has the word 'dog'"),
    "no text": ("wikitext2", write("test.txt", b"a \xff\xfe"), r"test\.txt: is not UTF-8 text \(byte 2\)"),
    "column too many": ("criteo", line("train.txt", 9, lambda old: f"{old}\tx"), r"train\.txt: .*Row #9.*40.*41"),
    "few lines": ("criteo", cut("train.txt", 100), r"train\.txt: 1 lines are too few"),
    "adult columns": ("adult", line("adult.data", 2, lambda _: "1, 2, 3"), r"adult\.data: line 2 has 3 columns"),
    "adult word": (
        "adult",
        line("adult.test", 3, lambda old: old.replace("Peru", "Mars")),
        r"adult\.test: line 3 has native-country='Mars'",
    ),
    "adult number": ("adult", line("adult.data", 1, lambda old: old.replace("39", "x")), r"line 1 has age='x'"),
    "no class": ("imagenet", lambda raw: shutil.rmtree(raw / "train"), r"train: does not exist"),
    "empty class": (
        "imagenet",
        lambda raw: [path.unlink() for path in (raw / "train" / "n01443537").iterdir()] and None,
        r"train/n01443537: holds no images",
    ),
    "strange class": (
        "imagenet",
        lambda raw: (raw / "val" / "n01443537").rename(raw / "val" / "n9") and None,
        r"val/n9: there is no such class in train",
    ),
    "no image": ("imagenet", write("train/n01440764/a.JPEG", b"none"), r"a\.JPEG: is not a readable image"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line_names_the_file_and_the_cure(case: str, tmp_path: Path) -> None:
    name, break_it, expected = CASES[case]
    make, dataset = SMALL[name]
    raw = tmp_path / "raw"
    make(raw)
    break_it(raw)
    said = refusal(dataset(str(raw)), tmp_path)
    assert re.search(expected, said), said
    assert str(raw) in said
    assert f"python run.py data {name}" in said


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda old: old.rpartition("\t")[0], r"Row #33: Expected 40 columns, got 39"),
        (lambda old: f"3{old[1:]}", "line 33 has the label 3"),
        (lambda old: f"1\tx{old[1:]}".rpartition("\t")[0], r"Row #33: .*'x"),
    ],
)
def test_a_line_far_into_a_file_is_named(
    change: Callable[[str], str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are read in blocks, and the number of a line is that in the file."""
    monkeypatch.setattr(criteo, "CHUNK_BYTES", 1500)
    raw_files.criteo(tmp_path / "raw")
    line("train.txt", 33, change)(tmp_path / "raw")
    said = refusal(SMALL["criteo"][1](str(tmp_path / "raw")), tmp_path)
    assert re.search(expected, said), said


@pytest.mark.parametrize("name", SMALL)
def test_without_files_the_command_is_told(name: str, tmp_path: Path) -> None:
    _, dataset = SMALL[name]
    said = refusal(dataset(str(tmp_path / "raw")), tmp_path)
    assert said.startswith(f"{tmp_path}/raw: does not exist; ")
    assert f"python run.py data {name}" in said
    (tmp_path / "raw").mkdir()
    assert refusal(dataset(str(tmp_path / "raw")), tmp_path).startswith(f"{tmp_path}/raw: is empty; ")


@pytest.mark.parametrize("name", SMALL)
def test_files_that_are_not_the_published_ones_are_refused(name: str, tmp_path: Path) -> None:
    """A flipped bit that leaves the format whole shows in nothing but the checksum; of two data sets in the counts."""
    make, dataset = SMALL[name]
    make(tmp_path / "raw")
    own = type(dataset(""))(raw_dir=str(tmp_path / "raw"))
    assert own.verify
    counts = {"criteo": ": 40 instead of the published 45,840,617", "imagenet": "2 classes instead of 1000"}
    assert re.search(counts.get(name, "sha256 .* instead"), refusal(own, tmp_path))


def test_files_without_proof_do_not_pass_for_the_published_ones(tmp_path: Path) -> None:
    make, dataset = SMALL["cifar10"]
    make(tmp_path / "raw")
    dataset(str(tmp_path / "raw")).prepare(str(tmp_path / "data"))
    with pytest.raises(DataError, match="does not exist"):
        Cifar10().prepare(str(tmp_path / "data"))


def test_more_words_than_the_model_has(tmp_path: Path) -> None:
    raw_files.wikitext2(tmp_path / "raw")
    said = refusal(WikiText2(raw_dir=str(tmp_path / "raw"), verify=False, vocabulary=11, sequence_length=5), tmp_path)
    assert "train.txt: has 12 different words, more than vocabulary=11" in said
    assert WikiText2(raw_dir=str(tmp_path / "raw"), verify=False, vocabulary=12).prepare(str(tmp_path / "data"))


@pytest.mark.parametrize("damage", ["removed", "truncated"])
def test_arrays_that_were_damaged_later(damage: str, tmp_path: Path) -> None:
    make, dataset = SMALL["adult"]
    make(tmp_path / "raw")
    own = dataset(str(tmp_path / "raw"))
    own.prepare(str(tmp_path / "data"))
    array = own.directory(str(tmp_path / "data")) / "test_inputs.npy"
    content = array.read_bytes()
    array.unlink()
    if damage == "truncated":
        array.write_bytes(content[:-3])
    with pytest.raises(DataError, match=r"adult_unverified: cannot be read .*remove it, and get"):
        own.prepare(str(tmp_path / "data"))


class Bomb:
    """What an evil pickle does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


def test_a_pickle_executes_nothing(tmp_path: Path) -> None:
    for protocol in range(6):
        content = pickle.dumps({"data": Bomb(tmp_path / "boom")}, protocol=protocol)
        with pytest.raises(ValueError, match=r"pickle that names .*refused"):
            read_pickle(content)
    assert not (tmp_path / "boom").exists()
    pickle.loads(content)
    assert (tmp_path / "boom").exists()  # the bomb is real


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", r"names os\.system, which could execute code: refused"),
        (b"(S'x'\nios\nsystem\n.", "the instruction INST"),
        (b"\x80\x02cnumpy\nndarray\nq\x00)\x81.", "the instruction NEWOBJ"),
        (b"\x80\x02cnumpy\nndarray\n)R.", "calls something"),
        (b"cnumpy\ndtype\n(S'O8'\nK\x00K\x01tRb.", "broken pickle"),
        (b"\x80\x02}q\x00(U\x01a", "broken|exhausted|pickle"),
        (b"P12\n.", "instruction PERSID"),
        (b"\x82\x01.", "instruction EXT1"),
        (pickle.dumps(np.array([1.5])), "not one of bytes|names|refused"),
        (pickle.dumps(np.array([object()], dtype=object), protocol=2), "refused"),
        (b"not a pickle", "opcode|unknown|broken"),
        (b"0.", "instruction POP"),
    ],
)
def test_pickles_with_more_than_data_are_refused(content: bytes, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        read_pickle(content)


def test_an_evil_batch_is_refused_by_name(tmp_path: Path) -> None:
    raw_files.cifar_pickles(tmp_path / "raw")
    (tmp_path / "raw" / "data_batch_2").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    said = refusal(Cifar10(raw_dir=str(tmp_path / "raw"), verify=False), tmp_path)
    assert "raw/data_batch_2: is a pickle that names os.system" in said


@pytest.mark.parametrize(
    ("break_it", "expected"),
    [
        (cut("data_batch_1.png", 2000), r"data_batch_1\.png: is no PNG that can be read"),
        (write("train_lables.json", "[1, 2"), r"train_lables\.json: is not a list of labels"),
        (write("train_lables.json", json.dumps([1] * 39)), r"data_batch_5\.png: holds 8 images and 7 labels"),
        (write("train_lables.json", json.dumps([300] * 40)), r"holds a label that is not in 0\.\.9"),
        (
            lambda raw: Image.new("L", (1024, 3)).save(raw / "test_batch.png"),
            r"test_batch\.png: is L with 1024 columns",
        ),
        (remove("test_lables.json"), r"test_lables\.json: does not exist"),
    ],
)
def test_pictures_of_no_use(break_it: Break, expected: str, tmp_path: Path) -> None:
    raw_files.cifar_png(tmp_path / "raw")
    break_it(tmp_path / "raw")
    said = refusal(Cifar10(raw_dir=str(tmp_path / "raw"), verify=False), tmp_path)
    assert re.search(expected, said), said
