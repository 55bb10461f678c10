"""Every format gives the samples that were written into it, whatever form they come in."""

from __future__ import annotations

import gzip
import io
import pickle
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reading.pickles import read_pickle
from tests.support import raw_files
from tests.support.raw_files import SMALL
from workloads.data import DataError, Split
from workloads.datasets import criteo
from workloads.datasets.adult import CATEGORIES, COLUMNS, NUMBERS, WORDS, Adult
from workloads.datasets.base import Dataset
from workloads.datasets.cifar10 import Cifar10
from workloads.datasets.criteo import Criteo
from workloads.datasets.fashion_mnist import FashionMnist
from workloads.datasets.imagenet import ImageNet
from workloads.datasets.wikitext2 import WikiText2


def prepared(dataset: Dataset, tmp_path: Path) -> Split:
    count = dataset.prepare(str(tmp_path / "data"))
    split = dataset.load(str(tmp_path / "data"))
    assert count == len(split.train[0]) == len(split.train[1])
    return split


def pack_tar(folder: Path) -> None:
    """As the original archives are: a folder inside."""
    with tarfile.open(folder / "cifar-10.tar.gz", "w:gz") as packed:
        for path in sorted(folder.iterdir()):
            if path.name != "cifar-10.tar.gz":
                packed.add(path, f"cifar-10-batches/{path.name}")
                path.unlink()


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
@pytest.mark.parametrize("make", [raw_files.cifar_binary, raw_files.cifar_pickles, raw_files.cifar_png])
def test_cifar_10_is_the_same_in_all_forms(make: Callable[[Path], None], packed: bool, tmp_path: Path) -> None:
    make(tmp_path / "raw")
    if packed:
        pack_tar(tmp_path / "raw")
    split = prepared(Cifar10(raw_dir=str(tmp_path / "raw"), verify=False), tmp_path)
    batches = [raw_files.cifar_batch(name) for name in raw_files.CIFAR]
    np.testing.assert_array_equal(split.train[0], np.concatenate([pixels for _, pixels in batches[:5]]))
    np.testing.assert_array_equal(split.train[1], np.concatenate([labels for labels, _ in batches[:5]]))
    np.testing.assert_array_equal(split.test[0], batches[5][1])
    assert (split.train[0].dtype, split.train[1].dtype) == (np.uint8, np.int64)


def test_pickles_are_read_as_python_s_own_module_does() -> None:
    """Those of today, and what stands for Python 2's files."""
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    content = {"data": array, "labels": [1, 2, -3, 70_000], "nested": ({"a": None}, [True, b"x"])}
    for protocol in (1, 2, 3, 4):
        found = read_pickle(pickle.dumps(content, protocol=protocol))
        np.testing.assert_array_equal(found.pop("data"), array)
        assert found == {"labels": [1, 2, -3, 70_000], "nested": ({"a": None}, [True, b"x"])}
    old = raw_files.python2_pickle("data_batch_3")
    theirs, ours = pickle.loads(old, encoding="bytes"), read_pickle(old)
    np.testing.assert_array_equal(theirs.pop(b"data"), ours.pop(b"data"))
    assert theirs == ours
    assert set(ours) == {b"batch_label", b"labels", b"filenames"}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_idx_files(packed: bool, tmp_path: Path) -> None:
    raw_files.fashion_mnist(tmp_path / "raw", packed=False)
    for path in [*(tmp_path / "raw").iterdir()] if packed else []:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), compresslevel=1, mtime=1))
        path.unlink()
    split = prepared(FashionMnist(raw_dir=str(tmp_path / "raw"), verify=False), tmp_path)
    rng = np.random.default_rng(12)
    np.testing.assert_array_equal(split.train[0][:, 0], rng.integers(0, 256, (12, 28, 28), dtype=np.uint8))
    np.testing.assert_array_equal(split.train[1], rng.integers(0, 10, 12, dtype=np.uint8))
    assert split.test[0].shape == (6, 1, 28, 28)


@pytest.mark.parametrize("form", ["txt", "tokens", "zip"])
def test_words_are_numbered_and_shifted_by_one(form: str, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw_files.wikitext2(raw, "txt" if form == "txt" else "tokens")
    lines = (raw / ("train.txt" if form == "txt" else "wiki.train.tokens")).read_text().splitlines()
    if form == "zip":
        with zipfile.ZipFile(tmp_path / "wikitext-2-v1.zip", "w") as packed:
            for path in raw.iterdir():
                packed.write(path, f"wikitext-2/{path.name}")
        raw = tmp_path / "wikitext-2-v1.zip"
    text = WikiText2(raw_dir=str(raw), verify=False, sequence_length=7)
    split = prepared(text, tmp_path)
    words = (text.directory(str(tmp_path / "data")) / "words.txt").read_text().splitlines()
    expected = [word for line in lines for word in (*line.split(), "<eos>")]
    inputs, targets = split.train
    assert [words[token] for token in inputs.ravel()] == expected[: inputs.size]
    assert [words[token] for token in targets.ravel()] == expected[1 : targets.size + 1]
    assert inputs.shape == ((len(expected) - 1) // 7, 7)
    assert len(words) == len(set(expected)) == 12
    sizes = [split.test[0].size]
    sizes.append(
        prepared(WikiText2(raw_dir=str(raw), verify=False, sequence_length=7, held_out="test"), tmp_path).test[0].size
    )
    assert sizes[0] < sizes[1] < inputs.size, "which text is held out is a setting"


@pytest.mark.parametrize("chunk_bytes", [1 << 24, 1500], ids=["one block", "many blocks"])
def test_criteo_lines_line_by_line(chunk_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(criteo, "CHUNK_BYTES", chunk_bytes)
    raw_files.criteo(tmp_path / "raw", lines=45)
    split = prepared(Criteo(raw_dir=str(tmp_path / "raw"), verify=False, buckets=1000), tmp_path)
    rows = [line.split("\t") for line in (tmp_path / "raw" / "train.txt").read_text().splitlines()]
    parts = [rows[at] for at in range(45) if at % 10 != 9], [rows[at] for at in range(45) if at % 10 == 9]
    for (inputs, targets), expected in zip((split.train, split.test), parts, strict=True):
        assert len(targets) == len(expected)
        for own, target, row in zip(inputs, targets, expected, strict=True):
            counts = [float(field or 0) for field in row[1:14]]
            np.testing.assert_allclose(own[:13], np.log1p(np.maximum(counts, 0)), rtol=1e-6)
            assert target == float(row[0])
            assert [bool(number) for number in own[13:]] == [bool(field) for field in row[14:]]
            assert all(0 <= number < 1000 for number in own[13:])


def test_a_category_always_has_the_same_bucket(tmp_path: Path) -> None:
    """Hashes are of the value alone and the same forever: prepared arrays would not fit parameters otherwise."""
    rng = np.random.default_rng(0)
    counts = "\t".join(["1"] * 13)
    first = ["68fd1e64", "80e26c9b", *(f"{rng.integers(0, 2**32):08x}" for _ in range(24))]
    lines = [f"0\t{counts}\t" + "\t".join(first)] * 12
    (tmp_path / "train.txt").write_text("\n".join(lines))
    split = prepared(Criteo(raw_dir=str(tmp_path), verify=False, buckets=100_000), tmp_path)
    assert np.ptp(split.train[0], axis=0).max() == 0
    assert len(split.train[0]) == 11
    assert [int(number) for number in split.train[0][0, 13:15]] == [77719, 47290]
    assert len(np.unique(split.train[0][0, 13:])) == 26


def test_adult_files(tmp_path: Path) -> None:
    raw_files.adult(tmp_path / "raw")
    split = prepared(Adult(raw_dir=str(tmp_path / "raw"), verify=False), tmp_path)
    ages = np.array([39.0, 50.0, 28.0])
    np.testing.assert_allclose(split.train[0][:, 0], (ages - ages.mean()) / ages.std(), rtol=1e-6)
    np.testing.assert_allclose(split.test[0][:, 0], (np.array([25.0, 38.0]) - ages.mean()) / ages.std(), rtol=1e-6)
    fields = list(CATEGORIES)
    ids = split.train[0][:, len(NUMBERS) :].astype(int)
    words = [WORDS[field][ids[1, at]] for at, field in enumerate(fields)]
    assert words == ["?", "Masters", "Married-civ-spouse", "?", "Husband", "Black", "Male", "United-States"]
    assert [list(part[1]) for part in (split.train, split.test)] == [[0.0, 1.0, 0.0], [0.0, 1.0]]


def test_adult_as_parquet_is_the_same(tmp_path: Path) -> None:
    raw_files.adult(tmp_path / "raw")
    text = prepared(Adult(raw_dir=str(tmp_path / "raw"), verify=False), tmp_path / "text")
    lines = (raw_files.ADULT_TEST + raw_files.ADULT_TRAIN).splitlines()
    rows = [[field.strip() for field in line.rstrip(".").split(",")] for line in lines if ", " in line]
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).rename(
        columns={"sex": "gender", "education-num": "educational-num"}
    )
    (tmp_path / "parquet").mkdir()
    buffer = io.BytesIO()
    frame.assign(age=frame["age"].astype(int)).to_parquet(buffer, compression="brotli")
    (tmp_path / "parquet" / "adult.parquet.brotli").write_bytes(buffer.getvalue())
    other = prepared(Adult(raw_dir=str(tmp_path / "parquet"), verify=False), tmp_path)
    assert len(other.test[0]) == 5 * 16_281 // 48_842 == 1  # the share of the real test part
    assert sorted([*text.train[1], *text.test[1]]) == sorted([*other.train[1], *other.test[1]])


def test_photographs_get_one_size(tmp_path: Path) -> None:
    raw_files.imagenet(tmp_path / "raw")
    split = prepared(ImageNet(raw_dir=str(tmp_path / "raw"), verify=False, image_size=16, num_classes=2), tmp_path)
    assert split.train[0].shape == (8, 3, 16, 16)
    assert split.test[0].shape == (4, 3, 16, 16)
    assert list(split.train[1]) == [0, 0, 0, 0, 1, 1, 1, 1]
    means = split.train[0].mean(axis=(2, 3))
    assert (means[:3, 0] > 200).all()  # red
    assert (means[4:7, 2] > 200).all()  # blue
    np.testing.assert_allclose(means[3], 128, atol=3)  # grey


@pytest.mark.parametrize("name", SMALL)
def test_a_batch_has_the_shape_that_the_facts_tell_and_the_files_are_needed_once(name: str, tmp_path: Path) -> None:
    make, dataset = SMALL[name]
    make(tmp_path / "raw")
    own = dataset(str(tmp_path / "raw"))
    split = prepared(own, tmp_path)
    batch = own.batch_inputs(split.train[0][:3], None)
    assert batch.shape == (3, *own.facts.input_shape)
    assert batch.dtype == (np.int64 if own.facts.vocabulary else np.float32)
    if own.facts.num_classes:
        assert 0 <= split.train[1].min() <= split.train[1].max() < own.facts.num_classes
    for at, cardinality in enumerate(own.facts.cardinalities, start=own.facts.num_dense):
        assert 0 <= split.train[0][:, at].min() <= split.train[0][:, at].max() < cardinality
    shutil.rmtree(tmp_path / "raw")
    other = prepared(dataset(str(tmp_path / "raw")), tmp_path)
    np.testing.assert_array_equal(split.train[0], other.train[0])
    assert [path.name for path in (tmp_path / "data").iterdir()] == [dataset("").directory("x").name]


def test_of_two_conversions_at_once_the_faster_says_whose_arrays_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is prepared while the first converts."""
    one, other, data_dir = (str(tmp_path / name) for name in ("one", "other", "data"))
    for place, lines in ((one, 40), (other, 80)):
        raw_files.criteo(Path(place), lines=lines)
    convert, begun = Criteo.convert, []

    def converting(self: Criteo, raw: Path, directory: Path) -> None:
        begun.append(raw)
        if len(begun) == 1:
            assert Criteo(raw_dir=other, verify=False).prepare(data_dir) == 72
        convert(self, raw, directory)

    monkeypatch.setattr(Criteo, "convert", converting)
    with pytest.raises(DataError, match=rf"was made from {other}; remove it to use {one}"):
        Criteo(raw_dir=one, verify=False).prepare(data_dir)
    for known in (other, None, str(tmp_path / "one" / ".." / "other")):
        assert Criteo(raw_dir=known, verify=False).prepare(data_dir) == 72
    assert [path.name for path in Path(data_dir).iterdir()] == ["criteo_100000_unverified"]

    def ended(self: Criteo, raw: Path, directory: Path) -> None:
        convert(self, raw, directory)
        raise KeyboardInterrupt

    monkeypatch.setattr(Criteo, "convert", ended)
    with pytest.raises(KeyboardInterrupt):
        Criteo(raw_dir=one, verify=False).prepare(str(tmp_path / "later"))
    assert list((tmp_path / "later").iterdir()) == [], "arrays never lack their source"
