"""Lines that nanotron prints: the time of every iteration, in three digits."""

from __future__ import annotations

import re
from collections.abc import Iterable

from analysis.logs.limits import LEAST_PRINTED_S, MILLI, MOST_SECONDS, MOST_STEP
from analysis.logs.lines import Line, positive, ranks_of, whole
from analysis.logs.rows import Rows

ITERATION = re.compile(r"\biteration: (\d++) / \d++ \|")
ELAPSED = re.compile(r"\| elapsed_time_per_iteration_ms: ([\d.,]++)([KMB]?+)(?= |$)")
BATCH = re.compile(r"\| global_batch_size: ([\d.]++)(K?+)(?= |$)")
PLACE = re.compile(r"\[[A-Z]{1,20}\|DP=(\d{1,9})\|PP=(\d{1,9})\|TP=(\d{1,9})")
"""Place of the process that prints, among the replicas, the stages and the parts of a layer."""
TIMES = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9}
ROUNDED = "nanotron rounds times to three digits: differences below 1 % are not known"
EACH = "logging.iteration_step_info_interval 1"


def is_nanotron(line: Line) -> bool:
    """Whether a line is one of an iteration."""
    return ITERATION.search(line.text) is not None and ELAPSED.search(line.text) is not None


def read_nanotron(source: str, lines: Iterable[Line]) -> Rows:
    """Iterations of every process that was printed, which is a single one by default.

    Raises:
        LogError: a number is none.
    """
    rows = Rows(source, EACH, sampled=True, remarks=[ROUNDED])
    processes, found = list[tuple[str, ...]](), list[tuple[int, float]]()
    for line in lines:
        if not (iteration := ITERATION.search(line.text)) or not (elapsed := ELAPSED.search(line.text)):
            continue
        where = f"{source}: line {line.number}"
        milliseconds = positive(elapsed[1], "elapsed_time_per_iteration_ms", where, MOST_SECONDS) * TIMES[elapsed[2]]
        place = PLACE.search(line.text)
        processes.append((*line.process, *(place.groups() if place else ())))
        found.append((whole(iteration[1], "iteration", where, MOST_STEP), max(milliseconds * MILLI, LEAST_PRINTED_S)))
        if size := BATCH.search(line.text):
            rows.job["global_batch_samples"] = int(
                positive(size[1], "global_batch_size", where, MOST_SECONDS) * TIMES[size[2]]
            )
    for rank, (step, seconds) in zip(ranks_of(processes), found, strict=True):
        rows.add(rank, step, seconds)
    return rows
