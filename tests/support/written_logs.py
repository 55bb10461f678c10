"""Logs of a job whose truth is known, as programs write them; and what launchers, files and people change of them."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analysis.logs.reading import Reading
from analysis.logs.table import Columns

Floats = NDArray[np.float64]
RANKS, TOKENS = 4, 8192
ROUND = 1.1
"""A step of all takes so many times its slowest rank's own work."""


@dataclass(frozen=True)
class Truth:
    """A job: the number of every step, and own work in seconds.

    Attributes:
        steps: [lines] number of every step, in the order in which they were done; some again after a restart.
        own_s: [lines, ranks] mean seconds of the steps that a line is of.
        counts: [lines] so many steps each.
        slow: the slow rank.
    """

    steps: tuple[int, ...]
    own_s: Floats
    counts: tuple[int, ...]
    slow: int

    def last(self) -> tuple[list[int], Floats]:
        """(steps, [steps, ranks] seconds of all steps that their line is of): the last attempt of each."""
        place = {step: line for line, step in enumerate(self.steps)}
        steps = sorted(place)
        lines = [place[step] for step in steps]
        return steps, self.own_s[lines] * np.array(self.counts)[lines, None]


def truth(rng: random.Random, *kinds: str) -> Truth:
    """A job of 4 ranks and 24 to 40 steps; ``warm-up``, ``resumed`` and ``interval`` are kinds."""
    every = rng.choice([5, 10]) if "interval" in kinds else 1
    lines, slow = rng.randint(24, 40), rng.randrange(RANKS)
    steps = [every * (1 + line) for line in range(lines)]
    if "resumed" in kinds:
        crash = rng.randint(8, lines - 8)
        steps = [*steps[:crash], *steps[crash - rng.randint(1, 6) :]]
    draws = np.random.default_rng(rng.randrange(1 << 30))
    own_s = 0.4 * np.exp(0.01 * draws.standard_normal((len(steps), RANKS)))
    own_s[:, slow] *= rng.choice([1.3, 1.5, 2.0])
    if "warm-up" in kinds:
        own_s[0] *= 40.0
    return Truth(tuple(steps), own_s, (every,) * len(steps), slow)


# ---- what programs print --------------------------------------------------------------------------------------------

Printed = list[tuple[int, str]]
"""The rank that prints a line, and the line."""


def megatron(job: Truth) -> Printed:
    lines: Printed = []
    for step, own_s in zip(job.steps, job.own_s, strict=True):
        milliseconds = 1000 * ROUND * own_s.max()
        lines.append(
            (3, f" iteration {step:8d}/    9000 | consumed samples: {64 * step:12d} | elapsed time per iteration (ms): "
             f"{milliseconds:.1f} | learning rate: 1.000E-04 | global batch size:    64 | lm loss: nan |")
        )  # fmt: skip
        lines += [(3, "times across ranks (ms):"), (3, "  forward-backward:")]
        lines += [(3, f"     rank {rank:2d}: {1000 * each:.2f}") for rank, each in enumerate(own_s)]
    return lines


def megatron_without_timers(job: Truth) -> Printed:
    return [(rank, text) for rank, text in megatron(job) if "iteration" in text]


def megatron_between(job: Truth) -> Printed:
    """By default it prints the quickest and the slowest rank; --log-straggler names them."""
    lines: Printed = []
    for step, own_s in zip(job.steps, 1000 * job.own_s, strict=True):
        least, most = int(own_s.argmin()), int(own_s.argmax())
        lines += [
            (3, f" iteration {step:8d}/    9000 | elapsed time per iteration (ms): {ROUND * own_s.max():.1f} |"),
            (3, "(min, max) time across ranks (ms):"),
            (3, f"    forward-backward ...............................: ({own_s.min():.2f}, {own_s.max():.2f})"),
            (0, f"INFO:megatron.core.utils:[2024-03-14 23:07:56] | MnRtt/Rnk: {own_s.min():.2f}ms/{least} | "
             f"MxRtt/Rnk: {own_s.max():.2f}ms/{most} | MnPwr/Rnk: 601796W/8 | MxPwr/Rnk: 683801W/18"),
        ]  # fmt: skip
    return lines


def mlperf(job: Truth) -> Printed:
    return [
        (0, f':::MLLOG {{"namespace": "", "time_ms": 1696466368958, "event_type": "POINT_IN_TIME", "key": '
         f'"tracked_stats", "value": {{"train_step_time": {ROUND * own_s.max()}, "reduced_train_loss": 7.7}}, '
         f'"metadata": {{"file": "/workspace/llm/custom_callbacks.py", "lineno": 484, "step": {448.0 * step}}}}}')
        for step, own_s in zip(job.steps, job.own_s, strict=True)
    ]  # fmt: skip


def nanogpt(job: Truth) -> Printed:
    return [
        (0, f"iter {step}: loss 3.2, time {1000 * ROUND * own_s.max():.2f}ms, mfu 9.22%")
        for step, own_s in zip(job.steps, job.own_s, strict=True)
    ]  # fmt: skip


def modded_nanogpt(job: Truth) -> Printed:
    """The time of training until then; a restarted job continues to count."""
    until_ms = np.cumsum([1000 * ROUND * each for each in job.own_s.max(axis=1)])
    return [
        (0, f"step:{step}/9000 train_time:{until:.0f}ms step_avg:{until / step:.2f}ms")
        for step, until in enumerate(until_ms.tolist(), 1)
    ]  # fmt: skip


def rank_lines(job: Truth) -> Printed:
    """As StragglAR's measurements; the all-reduce contains the wait for the slowest rank."""
    return [
        (rank, f"\x1b[92mRank {rank} | Step {step} | Forward Time: {300 * own:.2f} ms | Backward Time: "
         f"{650 * own:.2f} ms  | Loss: 5.5 | Iteration Time: {1000 * ROUND * own_s.max():.2f} ms | AR Time: "
         f"{1000 * (ROUND * own_s.max() - own):.2f} ms | AR Buffer Size: 12549804.00 KB\x1b[0m")
        for step, own_s in zip(job.steps, job.own_s, strict=True)
        for rank, own in enumerate(own_s.tolist())
    ]  # fmt: skip


def torchtitan(job: Truth) -> Printed:
    return [
        (rank, f"[titan] 2026-03-01 09:12:01,512 - root - INFO - step: {step:2d}  loss:  7.1  memory:  9.46GiB(11.9%)  "
         f"tps: {round(TOKENS / own_s[rank]):,}  tflops: 52.80  mfu: 9%")
        for step, own_s in zip(job.steps, job.own_s, strict=True)
        for rank in range(RANKS)
    ]  # fmt: skip


def nanotron(job: Truth) -> Printed:
    return [
        (0, f"10/17/2025 16:00:01 [INFO|DP=0|PP=0|TP=0|ip-26-0-1]: iteration: {step} / 9000 | consumed_tokens: 85.8G | "
         f"elapsed_time_per_iteration_ms: {_three_digits(1000 * ROUND * own_s.max())} | tokens_per_sec: 22.8K | "
         "global_batch_size: 1.02K | lm_loss: 2.38 | lr: 1e-05")
        for step, own_s in zip(job.steps, job.own_s, strict=True)
    ]  # fmt: skip


def _three_digits(value: float) -> str:
    value, suffix = (value / 1000, "K") if value >= 1000 else (value, "")
    return f"{value:.3g}{suffix}"


def deepspeed(job: Truth) -> Printed:
    lines: Printed = []
    for step, own_s in zip(job.steps, job.own_s, strict=True):
        milliseconds = 1000 * ROUND * own_s.max()
        begin = "[2026-11-02 10:00:01,101] [INFO]"
        lines += [
            (0, f"{begin} [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[5e-05], mom=[[0.9, 0.999]]"),
            (0, f"{begin} [timer.py:260:stop] epoch=0/micro_step={2 * step}/global_step={step}, "
             "RunningAvgSamplesPerSec=61.5, CurrSamplesPerSec=61.0, MemAllocated=6.01GB"),
            (0, f"{begin} [logging.py:96:log_dist] [Rank 0] time (ms) | fwd_microstep: 9.1 | bwd_microstep: 9.2 | "
             "step_microstep: 0.1"),
            (0, f"{begin} [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | fwd: {0.3 * milliseconds:.2f} | bwd: "
             f"{0.6 * milliseconds:.2f} | bwd_inner: {0.5 * milliseconds:.2f} | "
             f"bwd_allreduce: {0.1 * milliseconds:.2f} | step: {0.1 * milliseconds:.2f}"),
        ]  # fmt: skip
    return lines


def resiliency(job: Truth) -> Printed:
    lines: Printed = []
    for own_s in job.own_s:
        scores = own_s.min() / own_s
        lines += [(0, "GPU relative performance:"), (0, f" Worst performing {RANKS}/{RANKS} ranks:")]
        lines += [(0, f"  Rank={rank} Node=n{rank} Score={scores[rank]:.5f}") for rank in np.argsort(scores)]
        lines += [(0, f" Best performing 1/{RANKS} ranks:"), (0, f"  Rank={np.argmax(scores)} Node=n Score=1.00000")]
    return lines


WITHOUT_NAMES: dict[str, Callable[[int], str]] = {
    "journalctl": lambda rank: "Mar 01 09:12:01 gpu-3 python3[4711]: ",
    "logging": lambda rank: "2026-03-01 09:12:01,512 - INFO - ",
    "a tool that nobody knows": lambda rank: "<<run 7 @ gpu-3>> ",
}
"""These do not mention the process: a program is read with them only if its lines name their ranks."""
LAUNCHERS: dict[str, Callable[[int], str]] = {
    "torchrun": lambda rank: f"[default{rank}]:",
    "torchrun of a role": lambda rank: f"[trainer{rank}]: ",
    "rank": lambda rank: f"[rank{rank}]: ",
    "srun": lambda rank: f"{rank}: ",
    "mpirun": lambda rank: f"[1,{rank}]<stdout>:",
    "kubectl": lambda rank: f"[pod/job-worker-{rank}/pytorch] 2026-03-01T09:12:01.123456789Z ",
    "docker compose": lambda rank: f"worker-{rank}  | ",
    "Ray": lambda rank: f"\x1b[36m(RayTrainWorker pid=40{rank}, ip=10.0.0.{rank})\x1b[0m ",
    "a container's log": lambda rank: f"2026-03-01T09:12:01.1Z stdout F [rank{rank}]:",
    "srun and torchrun": lambda rank: f"{rank // 2}: [default{rank % 2}]:",
    "colours": lambda rank: f"[rank{rank}]:\x1b[32m",
    "pdsh": lambda rank: f"worker-{rank}: ",
    "time stamps": lambda rank: f"2026-03-01 09:12:01 [rank{rank}]: ",
}
OTHER_LINES = (
    "W0301 09:12:01.512000 140 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable",
    "  File \"/opt/train.py\", line 12, in <module>",
    "loading: 100%|##########| 12/12 [00:01<00:00,  9.1it/s]",
    "> finished loading checkpoint, step: 5, time (ms) | load-checkpoint: 0.23",
    "NCCL INFO Channel 00/02 :    0   1   2   3",
    "validation loss at iteration 10 | lm loss value: 1.2E+00 | lm loss PPL: 3.4E+00 |",
    "", "  ",
)  # fmt: skip
ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "byte order mark": lambda text: text.encode("utf-8-sig"),
    "UTF-16": lambda text: text.replace("\n", "\r\n").encode("utf-16"),
    "UTF-16 without a mark": lambda text: text.encode("utf-16-le"),
    "carriage returns": lambda text: text.replace("\n", "\r\n").encode(),
    "gzip": lambda text: gzip.compress(text.encode()),
    "Zstandard": lambda text: pa.compress(text.encode(), "zstd", asbytes=True),
}
PROGRAMS: dict[str, Callable[[Truth], Printed]] = {
    "Megatron-LM": megatron,
    "Megatron-LM without timers": megatron_without_timers,
    "Megatron-LM without names": megatron_between,
    "MLPerf": mlperf,
    "nanoGPT": nanogpt,
    "modded-nanogpt": modded_nanogpt,
    "StragglAR": rank_lines,
    "torchtitan": torchtitan,
    "nanotron": nanotron,
    "DeepSpeed": deepspeed,
    "resiliency": resiliency,
}
JOB_KINDS = ("warm-up", "resumed", "interval")
LINE_KINDS = ("launcher", "other lines", "encoding")


def printed(rng: random.Random, program: str) -> tuple[Truth, bytes, list[str]]:
    """(a job, its log with one to three changes, these changes)."""
    kinds = rng.sample([*JOB_KINDS, *LINE_KINDS], rng.randint(1, 3))
    if program in (
        "resiliency",
        "MLPerf",
        "modded-nanogpt",
    ):  # a report has no step, and the number of MLPerf's counts anything
        kinds = [kind for kind in kinds if kind not in ("resumed", "interval")]
    job = truth(rng, *kinds)
    lines = PROGRAMS[program](job)
    if "other lines" in kinds:
        for _ in range(9):
            lines.insert(rng.randrange(len(lines) + 1), (rng.randrange(RANKS), rng.choice(OTHER_LINES)))
    before = LAUNCHERS if program == "torchtitan" else {**LAUNCHERS, **WITHOUT_NAMES, "": lambda rank: ""}
    launcher = rng.choice(list(before)) if "launcher" in kinds else "rank" if program == "torchtitan" else ""
    text = "".join(f"{before[launcher](rank)}{line}\n" for rank, line in lines)
    data, encoding = _encoded(rng, text, kinds)
    return job, data, [*kinds, launcher, encoding]


# ---- tables ---------------------------------------------------------------------------------------------------------

UNITS = {"": 1.0, "_ms": 1e-3, "_usec": 1e-6, " (ns)": 1e-9, "_milliseconds_mean": 1e-3, "TimeMs": 1e-3}
TABLE_KINDS = (
    *("warm-up", "resumed", "units", "unit by setting", "separator", "decimal comma", "thousands", "blanks"),
    *("names of ranks", "other columns", "shuffled", "missing rows", "encoding", "compute", "comm", "decimals"),
)


@dataclass(frozen=True)
class _Form:
    """How a table is written."""

    kinds: tuple[str, ...]
    unit: str
    scale_s: float
    separator: str

    @property
    def columns(self) -> Columns:
        compute = f"work{self.unit}" if "compute" in self.kinds else None
        comm = f"wait{self.unit}" if "comm" in self.kinds and compute is None else None
        return Columns(seconds=f"seconds{self.unit}", compute=compute, comm=comm)

    def number(self, seconds: float) -> str:
        value = seconds / self.scale_s
        text = f"{value:,.3f}" if "thousands" in self.kinds else f"{value:.9f}"
        if "decimal comma" in self.kinds:
            text = text.translate(str.maketrans(",.", ".,"))
        return f'"{text}"' if self.separator in text else text

    def row(self, step: int, rank: int, own_s: float, round_s: float) -> list[str]:
        """A step of a rank, in the order of the header."""
        columns = self.columns
        name = f"gpu-{rank // 2:03d}.example.org:{rank % 2}" if "names of ranks" in self.kinds else str(rank)
        cells = [name, f"{step}.0" if "decimals" in self.kinds else str(step)]
        cells.append(self.number(round_s if columns.compute or columns.comm else own_s))
        cells += [self.number(own_s)] * (columns.compute is not None)
        cells += [self.number(round_s - own_s)] * (columns.comm is not None)
        return ["nan", *cells, '"a b"'] if "other columns" in self.kinds else cells

    def header(self) -> list[str]:
        named = ("rank", "step", self.columns.seconds, self.columns.compute, self.columns.comm)
        names = [name for name in named if name is not None]
        return ["loss", *names, "note"] if "other columns" in self.kinds else names


def table(rng: random.Random) -> tuple[Truth, bytes, Reading, list[str]]:
    """(a job, its table with a row per rank and step and one to three changes, how to read it, these changes)."""
    kinds = rng.sample(TABLE_KINDS, rng.randint(1, 3))
    if "resumed" in kinds:  # the later row counts
        kinds = [kind for kind in kinds if kind != "shuffled"]
    job = _with_gaps(rng, truth(rng, *kinds)) if "missing rows" in kinds else truth(rng, *kinds)
    unit = "_us" if "thousands" in kinds else rng.choice(list(UNITS)) if "units" in kinds else ""
    setting = 1e-3 if "unit by setting" in kinds and "thousands" not in kinds else None
    separator = ";" if "decimal comma" in kinds else rng.choice(";\t|") if "separator" in kinds else ","
    form = _Form(tuple(kinds), unit, setting or UNITS.get(unit, 1e-6), separator)
    rows = [
        form.row(step, rank, own_s[rank], ROUND * np.nanmax(own_s))
        for step, own_s in zip(job.steps, job.own_s, strict=True)
        for rank in range(RANKS)
        if not np.isnan(own_s[rank])
    ]
    if "shuffled" in kinds:
        rng.shuffle(rows)
    between = f" {separator} " if "blanks" in kinds else separator
    text = "".join(between.join(row) + "\n" for row in [form.header(), *rows])
    data, encoding = _encoded(rng, text, kinds)
    return job, data, Reading(form.columns, unit_s=setting), [*kinds, unit, separator, encoding]


def _with_gaps(rng: random.Random, job: Truth) -> Truth:
    """The same job, of which one time in twenty is missing."""
    gaps = np.random.default_rng(rng.randrange(1 << 30)).random(job.own_s.shape) < 0.05
    return replace(job, own_s=np.where(gaps, np.nan, job.own_s))


def _encoded(rng: random.Random, text: str, kinds: Sequence[str]) -> tuple[bytes, str]:
    encoding = rng.choice(list(ENCODINGS)) if "encoding" in kinds else ""
    return ENCODINGS[encoding](text) if encoding else text.encode(), encoding


WIDE = ("rank{} - step_ms", "time_ms_{}", "v2/rank_{}/ms", "worker {} (ms)", "node3.rank{}.msec")
WIDE_KINDS = ("warm-up", "extremes", "missing cells", "separator", "encoding", "shuffled", "names")


def wide(rng: random.Random) -> tuple[Truth, bytes, Reading, list[str]]:
    """The same with a column per rank; a cell is empty where a rank has no time."""
    kinds = rng.sample(WIDE_KINDS, rng.randint(1, 3))
    job = _with_gaps(rng, truth(rng, *kinds)) if "missing cells" in kinds else truth(rng, *kinds)
    separator = rng.choice(";\t") if "separator" in kinds else ","
    form = rng.choice(WIDE) if "names" in kinds else WIDE[0]
    ends = ("", "__MIN", "__MAX") if "extremes" in kinds else ("",)
    nothing = rng.choice(["", "NaN", "N/A", "null"])
    names = ["Step", *(form.format(rank) + end for rank in range(RANKS) for end in ends)]
    lines = []
    for step, own_s in zip(job.steps, job.own_s, strict=True):
        cells = [nothing if np.isnan(each) else f"{1000 * each:.6f}" for each in own_s for _ in ends]
        lines.append(separator.join([str(step), *cells]))
    if "shuffled" in kinds:
        rng.shuffle(lines)
    text = "\n".join([separator.join(f'"{name}"' for name in names), *lines, ""])
    data, encoding = _encoded(rng, text, kinds)
    return job, data, Reading(Columns(step="Step")), [*kinds, form, encoding]


# ---- traces ---------------------------------------------------------------------------------------------------------

TRACES = (
    *("rank{rank}.json", "trace-rank-{rank}.json", "worker{rank}_step_12.169412820.pt.trace.json"),
    *("node3_{rank}_of_16.json", "gpu3.example.org_{rank}99.1764350000{rank}.pt.trace.json"),
)
TRACE_KINDS = (
    *("warm-up", "names", "rank within", "other files", "folders", "open", "controls", "bytes", "gzip", "first step"),
    *("annotations", "few steps", "array"),
)


def traces(rng: random.Random) -> tuple[Truth, dict[str, bytes], list[str]]:
    """(a job, its files by name, the changes)."""
    kinds = rng.sample(TRACE_KINDS, rng.randint(1, 3))
    job = truth(rng, *(kind for kind in kinds if kind == "warm-up"))
    if "few steps" in kinds:
        job = replace(job, steps=job.steps[:3], own_s=job.own_s[:3], counts=job.counts[:3])
    first = rng.randrange(1000) if "first step" in kinds else 0
    job = replace(job, steps=tuple(step + first for step in job.steps))
    name = rng.choice(TRACES) if "names" in kinds else TRACES[0]
    length = len(job.steps)
    parts = (
        [range(length)] if "folders" not in kinds or length < 9 else [range(length // 2), range(length // 2, length)]
    )
    files: dict[str, bytes] = {}
    for place, part in enumerate(parts):
        for rank in range(RANKS):
            data = trace(rng, job, rank, part, kinds)
            path = f"iteration_{10 * place + 10}/" * (len(parts) > 1) + name.format(rank=rank)
            files[path + ".gz" * ("gzip" in kinds)] = gzip.compress(data) if "gzip" in kinds else data
    if "other files" in kinds:
        files |= {"config.json": b'{"layers": 8}', "notes.txt": b"hello", "list.json": b"[1, 2]"}
    return job, files, kinds


def trace(rng: random.Random, job: Truth, rank: int, lines: Sequence[int], kinds: Sequence[str]) -> bytes:
    gemm = "ge\x01m\tm" if "controls" in kinds else "gemm"
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "args": {"name": gemm}}]
    ts = 1e6 * rng.random()
    for line in lines:
        own, step = 1e6 * job.own_s[line, rank], 1e6 * ROUND * job.own_s[line].max()
        span = {"ph": "X", "name": f"ProfilerStep#{job.steps[line]}", "ts": ts, "dur": step}
        events.append({**span, "cat": "user_annotation"})
        if "annotations" in kinds:
            events.append({**span, "cat": "gpu_user_annotation", "dur": 0.5 * step})
        events.append({"ph": "X", "name": gemm, "cat": "kernel", "ts": ts, "dur": own})
        nccl = {"ph": "X", "name": "ncclDevKernel_AllReduce_Sum_f32", "cat": "kernel", "ts": ts + 0.9 * own}
        events.append({**nccl, "dur": step - 0.9 * own})
        ts += step
    about = (
        {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": RANKS}} if "rank within" in kinds else {}
    )
    is_array = ("array" in kinds or "open" in kinds) and not about
    text = json.dumps(events if is_array else {"schemaVersion": 1, **about, "traceEvents": events})
    if "controls" in kinds:
        text = text.replace("\\u0001", "\x01").replace("\\t", "\t")
    if "open" in kinds and is_array:
        text = text[:-1] + ",\n"
    return text.encode().replace(b"gemm", b"ge\xff\xfemm") if "bytes" in kinds else text.encode()
