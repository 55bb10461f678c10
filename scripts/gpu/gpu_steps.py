"""The measurements and tests on a GPU, most wanted first (pure): steps of a few minutes, and which comes next.

A machine with a GPU is available once, for a short time: steps that never ran on hardware come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from runtime.house import module_name

BENCH, TESTS = "tests/bench/test_bench_gpu.py", "tests/live/test_gpu.py"
OURS = ("records", "unfinished", "steps", "hogs", "data", "costs.yaml", "measured.md")
"""All files that a session writes, with the measurements that are its steps."""
LEAST_S = 20.0
"""A step that would have less is not begun: starting CUDA alone takes half of it."""


class Step(NamedTuple):
    """One program: ``words`` for Python. It is ended after ``most_s`` seconds."""

    name: str
    shows: str
    words: tuple[str, ...]
    most_s: float


class Result(NamedTuple):
    """How a step ended."""

    exit_code: int
    seconds: float

    @property
    def line(self) -> str:
        """As the last line of its output."""
        return f"exit code {self.exit_code} after {self.seconds:.0f} s"


def steps(device: str, out: Path) -> list[Step]:
    """All of them, in order. Records of scripts are below ``out``; they continue where they were ended."""
    return [
        _tests("ddp_free", "ours at 0.95 of plain DDP, both with the kernels that torch chooses", BENCH, "free", 180),
        _tests("late_memory", "memory of a killed worker that is freed late is waited for", TESTS, "freed_late", 120),
        Step(
            "hogs",
            "slow-down and share of hogs at six levels",
            ("run.py", "injectors", "--device", device, "--quick", "-o", str(out / "hogs")),
            180,
        ),
        _measuring_step("fidelity", "JCT on the virtual clock within 5 %, alone and next to hogs", device, out),
        _tests(
            "ddp_graphs", "ours at 0.95 of plain DDP, all kernels of a gradient launched at once", BENCH, "graphs", 180
        ),
        _tests("graphs", "the same bits when all kernels of a gradient are launched at once", TESTS, "graph", 90),
        _tests("two_devices", "NCCL against our ring, where there are two devices", TESTS, "on_their_devices", 90),
        _tests("tensorflow", "losses of TensorFlow on the device", TESTS, "tensorflow", 120),
        _tests("ddp_exact", "ours at 0.95 of DDP, both with exact kernels", BENCH, "exact", 180),
        _tests(
            "exact",
            "losses of the CPU, equal bits, restarts, copies, ring",
            TESTS,
            "cpu or equal or copies or killed or host",
            180,
        ),
        _tests("shared", "hogs' account, shares by MPS", TESTS, "other_work or shares_of", 120),
        _measuring_step("saturation", "time of a batch by its size", device, out),
        _measuring_step("shares", "order of idle times with unequal shares", device, out),
    ]


def _tests(name: str, shows: str, file: str, selected: str, most_s: float) -> Step:
    words = ("-m", "pytest", "-s", "-rs", "-m", "gpu", "-p", "no:cacheprovider", file, "-k", selected)
    return Step(name, shows, words, most_s)


def _measuring_step(part: str, shows: str, device: str, out: Path) -> Step:
    words = ("-m", module_name("scripts.gpu.measure_gpu"), "--device", device, "--part", part, "-o", str(out))
    return Step(part, shows, words, 180)


def order(all_steps: Sequence[Step], done: Mapping[str, Result]) -> Iterator[Step]:
    """The remaining steps: first the ones that never ran, then the ones that failed or were ended."""
    yield from (step for step in all_steps if step.name not in done)
    yield from (step for step in all_steps if step.name in done and done[step.name].exit_code)


def parse_result(output: str) -> Result | None:
    """The result that stands at the end of a step's output; None: it was interrupted."""
    words = (output.splitlines() or [""])[-1].split()
    if len(words) != 6 or words[:2] != ["exit", "code"]:
        return None
    return Result(int(words[2]), float(words[4]))
