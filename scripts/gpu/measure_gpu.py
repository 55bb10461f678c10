"""Measure the papers' and goals' statements on shared GPUs, the virtual clock's accuracy there, and hogs.

python -m scripts.gpu.measure_gpu                    # on the first GPU; five minutes; writes to out/gpu/cuda
python -m scripts.gpu.measure_gpu --device fake      # the same jobs, smaller, on the fake device: shows that they run
python -m scripts.gpu.measure_gpu --part fidelity    # one part: fidelity, saturation, shares, or hogs

MPS is needed for unequal shares; without it those rows are left out. Existing records are not made again, so the same
command continues after an interruption. After each part it prints a table of all existing records, and writes it to
OUTDIR/measured.md; the hogs' use of the device (python run.py injectors) is below OUTDIR/hogs. Without a GPU it
says so and does nothing. The exit code is 0 for a report (including one with misses), 1 if a run failed, 2 for invalid
input.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from analysis.files import write_file
from analysis.markup import markdown_lines
from analysis.records.load import RecordError, Run
from analysis.records.provenance import caption
from runtime.errors import refuse
from runtime.house import module_name
from runtime.live.machines.doctor import missing
from runtime.live.machines.mechanisms import Look
from runtime.live.machines.mps import PROGRAM
from runtime.run.probing import refuse_unwritable_folder
from runtime.run.streams import run_program
from scripts.gpu.gpu_measurements import (
    FIDELITY,
    PARTS,
    SHARES,
    SIZES,
    Row,
    cells,
    live_jobs,
    part_of,
    rows,
    virtual_jobs,
)
from scripts.gpu.gpu_steps import OURS
from stragglab.commands import calibrate
from stragglab.commands import injectors as calibrate_injectors
from stragglab.grids.answering import answer, lacks_gpu
from stragglab.grids.grid import JobFailed, Runner, fill, run_child, stored_record
from workloads import data
from workloads.data import Split
from workloads.datasets.cifar10 import CLASSES, SHAPE, Cifar10

NAME = "measure_gpu.py"
HOGS = "hogs"
HEADS = ("what", "wanted", "found", "holds")


def main(argv: Sequence[str] | None = None, runner: Runner = run_child, look: Look = missing) -> int:
    """Run and report; returns the exit code (see the module). ``runner``: instead of ``run.py``, for tests."""
    words = sys.argv[1:] if argv is None else list(argv)
    console = Console(highlight=False, markup=False)

    def work(asked: argparse.Namespace) -> int:
        if lacks_gpu(asked.device, look, console):
            return 0
        command = shlex.join(["python", "-m", module_name("scripts.gpu.measure_gpu"), *words])
        failed: list[JobFailed] = []
        for part in asked.parts:
            if part == HOGS:
                hogs = ["--device", asked.device, "--quick", "-o", str(asked.out / "hogs")]
                if code := calibrate_injectors.main(hogs, runner, look):
                    return code
                continue
            try:
                measure(part, asked.device, asked.out, console, runner)
                report(asked.device, existing(asked.device, asked.out), asked.out, command, console)
            except JobFailed as error:  # the other parts do without
                failed.append(error)
        if failed:
            raise failed[0]
        return 0

    return answer(NAME, lambda: parse(words), work)


def measure(part: str, device: str, out: Path, console: Console, runner: Runner) -> None:
    """The live runs of a part; of ``fidelity`` also the cost model that they say, and virtual runs by it."""
    images = out / "data"
    store_images(images, SIZES[device].samples)
    if part == SHARES and device == "cuda" and shutil.which(PROGRAM) is None:
        console.print(f"left out: unequal shares: {PROGRAM} is not installed")
        return
    jobs = {name: job for name, job in live_jobs(device, images).items() if part_of(name) == part}
    runs = fill(
        jobs, {name: stored_record(name, job, out) for name, job in jobs.items()}, out, console, runner, live=True
    )
    if part != FIDELITY:
        return
    costs = out / "costs.yaml"
    fits = [str(run.path) for name, run in runs.items() if name.startswith("fit_")]
    if calibrate.main([*fits, "-o", str(costs), "--force"]) != 0:
        raise RecordError(f"{costs}: these runs say no cost model")
    fill(virtual_jobs(device, images, costs), {}, out, console, runner, live=False)


def existing(device: str, out: Path) -> dict[str, Run]:
    """Read the existing records."""
    images = out / "data"
    jobs = live_jobs(device, images) | virtual_jobs(device, images, out / "costs.yaml")
    found = {name: stored_record(name, job, out) for name, job in jobs.items()}
    return {name: run for name, run in found.items() if run is not None}


def store_images(folder: Path, count: int) -> None:
    """Random images and classes, in the form in which CIFAR-10 is prepared."""
    place, chance = Cifar10(verify=False).directory(str(folder)), np.random.default_rng(0)

    def draw_images(number: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        return chance.integers(256, size=(number, *SHAPE), dtype=np.uint8), chance.integers(CLASSES, size=number)

    if not place.exists():
        data.store(place, Split(train=draw_images(count), test=draw_images(count // 10)))


def report(device: str, runs: dict[str, Run], out: Path, command: str, console: Console) -> None:
    """Print the table and write it."""
    found = list(rows(device, runs))
    shown = Table(*HEADS, box=box.SIMPLE_HEAD, pad_edge=False)
    for line in cells(found):
        shown.add_row(*line)
    console.print(shown)
    console.print(str(write_file(out / "measured.md", page(found, command, runs))), soft_wrap=True)


def page(found: Sequence[Row], command: str, runs: dict[str, Run]) -> str:
    """The report as a page."""
    about = ["# Measured on one device", "", "Made by", "", "```", command, "```", ""]
    about += [f"from: {caption([run.meta for run in runs.values()])}.", ""]
    return "\n".join([*about, *markdown_lines(list(HEADS), cells(found)), ""])


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse and fill in defaults; raises a one-line :class:`ConfigError` for invalid input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=tuple(SIZES), default="cuda", help="cuda (default) or fake")
    parser.add_argument("--part", choices=(*PARTS, HOGS), help="measure only this (default: all of them)")
    parser.add_argument("-o", "--out", metavar="OUTDIR", type=Path, help="output directory (default: out/gpu/DEVICE)")
    parser.error = refuse  # type: ignore[method-assign]
    asked = parser.parse_args(list(words))
    asked.parts = (asked.part,) if asked.part else (*PARTS, HOGS)
    asked.out = (asked.out or Path("out/gpu") / asked.device).absolute()
    refuse_unwritable_folder("-o", asked.out, OURS)
    return asked


if __name__ == "__main__":
    run_program(NAME, main)
