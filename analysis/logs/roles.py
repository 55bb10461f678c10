"""The meaning of metrics and columns by their names, as training programs and trackers write them (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from analysis.logs.limits import MOST_NAME

TIME = r"\b(?:time|timing|duration|s|ms|us|ns|sec|secs|seconds|stall|wait|waiting|blocked)\b"
OTHER = re.compile(
    r"%|\b(?:val|valid|validation|validate|eval|evaluate|test|total|eta|remaining|percent|pct|frac|fraction|ratio|max|min|"
    r"std|p50|p90|p95|p99|samples|tokens|device)\b|\bper (?:s|sec|second)\b"
)
"""Names of other things than the time that a training step took."""
LOADING = re.compile(
    rf"\b(?:data|dataloader|dataloading|loader|loading|input|fetch)\b.*{TIME}|{TIME}.*\bdata loading\b"
)
SENDING = re.compile(
    rf"\b(?:comm|communication|allreduce|all reduce|reduce scatter|all gather|sync|barrier|nccl|collective)\b.*{TIME}"
)
COMPUTING = re.compile(rf"\b(?:compute|computation|computing|forward|backward|fwd|bwd)\b.*{TIME}")
WHOLE = re.compile(
    r"\b(?:step|iter|iteration|batch) (?:time|timing|duration|took|ms|s|sec|secs|seconds)\b|"
    r"\b(?:time|timing|seconds|secs|sec|s|ms) (?:per )?(?:step|iter|iteration|batch)$|"
    r"\bend to end s$|\bwall time (?:ms|s)$|^throughput duration$"
)
CLOCK = re.compile(
    r"^(?:timestamp|runtime|wall time|elapsed(?: time)?(?: s| ms| seconds)?|train time|relative time(?: process)?)$"
)
OF_RANKS = re.compile(
    r"\b(?:rank|worker|process|proc|replica|node|host|machine|gpu|device|card|npu|tpu|dp)s?\b|^[a-z]?$"
)
"""Names of columns of a rank each, without numbers."""
OF_OTHERS = re.compile(
    r"\b(?:loss|losses|acc|accuracy|error|err|score|reward|grad|gradient|norm|lr|rate|tokens|samples|throughput|tps|mfu|"
    r"tflops|memory|mem|util|utilization|temp|temperature|power|energy|clock|bytes|gb|mb)\b"
)
"""Names of what is no time."""
STEPS = ("trainer global step", "train global step", "global step", "step", "iteration", "iter")
"""The first of these that there is: trackers count their own calls as ``_step``."""
RANKS = ("rank", "global rank", "dp rank", "worker", "worker id", "process index")


class Roles(NamedTuple):
    """Names by their meaning; of ``clock`` the first is the one to use."""

    step: str | None
    rank: str | None
    whole: tuple[str, ...]
    loading: tuple[str, ...]
    sending: tuple[str, ...]
    computing: tuple[str, ...]
    clock: tuple[str, ...]


def plain(name: str) -> str:
    """A name as words in lower case: of ``trainer/global_step`` and of ``trainerGlobalStep`` they are the same."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", name)
    return " ".join(re.sub(r"[\W_]+", " ", words.replace("%", " % ")).split()).lower() + (" %" if "%" in name else "")


def may_be_of_ranks(name: str) -> bool:
    """Whether a column may have the times of a rank, of columns that differ by their numbers only."""
    words = plain(re.sub(r"\d+", " ", name))
    return bool(re.search(TIME, words) or (OF_RANKS.search(words) and not OF_OTHERS.search(words)))


def roles_of(names: Iterable[str]) -> Roles:
    """Tell the names of steps, ranks, times of whole steps and of their parts, and clocks."""
    by_words = {name: plain(name) for name in names if len(name) <= MOST_NAME}  # of long ones the search is endless

    def first(wanted: Sequence[str]) -> str | None:
        return next((name for want in wanted for name, words in by_words.items() if words == want), None)

    found: dict[str, list[str]] = {"whole": [], "loading": [], "sending": [], "computing": [], "clock": []}
    patterns = {"loading": LOADING, "sending": SENDING, "computing": COMPUTING, "whole": WHOLE}
    for name, words in by_words.items():
        if CLOCK.search(words):
            found["clock"].append(name)
        elif not OTHER.search(words) and (role := next((r for r, p in patterns.items() if p.search(words)), None)):
            found[role].append(name)
    for role in ("loading", "sending", "computing"):  # a rank's own (rank_data_time) beside the same of all
        longer = {one for one in found[role] for other in found[role] if by_words[one].endswith(f" {by_words[other]}")}
        found[role] = [name for name in found[role] if name not in longer]
    if not found["whole"] and any(by_words[name] == "data time" for name in found["loading"]):
        found["whole"] = [name for name, words in by_words.items() if words == "time"]  # detectron2, OpenMMLab
    return Roles(first(STEPS), first(RANKS), **{role: tuple(some) for role, some in found.items()})
