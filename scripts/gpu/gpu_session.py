"""Everything that needs a GPU, most wanted first, in steps of three minutes; results of finished steps are kept.

python -m scripts.gpu.gpu_session                           # all steps; half an hour; writes to out/gpu/cuda
python -m scripts.gpu.gpu_session --minutes 14              # ends within this time, whatever is left
python -m scripts.gpu.gpu_session --device fake             # the same, smaller, on the fake device: shows that it runs

The output of each step is OUTDIR/steps/NAME.txt, as it comes. The same command continues with the steps that have not
run, then repeats the failed ones. Without a GPU it says so and does nothing. The exit code is 0 if all steps have
succeeded (or were skipped with their reason), 1 if one failed or is left, 2 for invalid input.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from runtime.containment.process import die_with
from runtime.errors import FAILED, refuse
from runtime.house import ROOT
from runtime.live.machines.doctor import missing
from runtime.live.machines.mechanisms import Look
from runtime.run.probing import refuse_unwritable_folder
from runtime.run.streams import run_program
from scripts.gpu.gpu_measurements import SIZES
from scripts.gpu.gpu_steps import LEAST_S, OURS, Result, Step, order, parse_result, steps
from scripts.gpu.leftovers import nothing_left
from stragglab.grids.answering import answer, lacks_gpu

NAME = "gpu_session.py"
DEVICE, ROUNDS = "STRAGGLAB_GPU_DEVICE", "STRAGGLAB_BENCH_ROUNDS"
ALL_SKIPPED = 5
"""pytest's exit code where nothing was selected."""
ENDED = 124
GRACE_S = 10.0
"""A step that is out of time has so long to end by itself, and then as long to be ended."""
Runner = Callable[[Step, str, float, Path], int]
"""Runs a step on a device for so many seconds at most, its output in that file; returns the exit code."""


def main(argv: Sequence[str] | None = None, runner: Runner | None = None, look: Look = missing) -> int:
    """Run what is left; returns the exit code (see the module). ``runner``: instead of processes, for tests."""
    words = sys.argv[1:] if argv is None else list(argv)
    console = Console(highlight=False, markup=False)

    def work(asked: argparse.Namespace) -> int:
        if lacks_gpu(asked.device, look, console):
            return 0
        return session(asked, console, runner or run_step)

    return answer(NAME, lambda: parse(words), work)


def session(asked: argparse.Namespace, console: Console, runner: Runner) -> int:
    """Run the steps that are left while there is time."""
    folder = asked.out / "steps"
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * asked.minutes
    all_steps = steps(asked.device, asked.out)
    done = {step.name: found for step in all_steps if (found := read_result(folder / f"{step.name}.txt"))}
    for step in list(order(all_steps, done)):
        left_s = until - time.monotonic() - 2 * GRACE_S
        if left_s < LEAST_S:
            break
        output = folder / f"{step.name}.txt"
        begun_s = time.monotonic()
        code = runner(step, asked.device, min(step.most_s, left_s), output)
        done[step.name] = found = Result(0 if code == ALL_SKIPPED else code, time.monotonic() - begun_s)
        with output.open("a") as file:
            file.write(f"\n{found.line}\n")
        console.print(f"{step.name}: {found.line} ({step.shows}): {output}", soft_wrap=True)
    left = [step.name for step in all_steps if step.name not in done]
    failed = [name for name, found in done.items() if found.exit_code]
    for what, names in (("not run", left), ("failed", failed)):
        if names:
            console.print(f"{what}: {', '.join(names)}; the same command continues", soft_wrap=True)
    return FAILED if left or failed else 0


def read_result(output: Path) -> Result | None:
    """The result of an earlier session."""
    return parse_result(output.read_text(errors="replace")) if output.exists() else None


def run_step(step: Step, device: str, most_s: float, output: Path) -> int:
    """In a session of its own, so that all of it is ended with it."""
    rounds = "2" if device == "cuda" else "1"  # a fake device does not show how fast it is
    environment = {ROUNDS: rounds, **os.environ, DEVICE: device, "PYTHONUNBUFFERED": "1"}
    with output.open("wb") as file, nothing_left() as begin:
        process = subprocess.Popen(
            [sys.executable, *step.words],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=partial(start_watched, os.getpid(), begin),
        )
        try:
            return process.wait(most_s)
        except subprocess.TimeoutExpired:
            return ENDED
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)  # tests and scripts then end what they have started
                try:
                    process.wait(GRACE_S)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(GRACE_S)


def start_watched(parent: int, begin: Callable[[], None]) -> None:
    """Prepare a step's process: it dies with its parent, and is watched."""
    die_with(parent)
    begin()


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse and fill in defaults; raises a one-line :class:`ConfigError` for invalid input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=tuple(SIZES), default="cuda", help="cuda (default) or fake")
    parser.add_argument("--minutes", type=float, default=60.0, metavar="M", help="time that there is (default: 60)")
    parser.add_argument("-o", "--out", metavar="OUTDIR", type=Path, help="output directory (default: out/gpu/DEVICE)")
    parser.error = refuse  # type: ignore[method-assign]
    asked = parser.parse_args(list(words))
    if not asked.minutes > 0:
        refuse(f"--minutes {asked.minutes:g}: must be more than 0")
    asked.out = (asked.out or Path("out/gpu") / asked.device).absolute()
    refuse_unwritable_folder("-o", asked.out, OURS)
    return asked


if __name__ == "__main__":
    run_program(NAME, main)
