"""The page about a paper: a section per experiment, replaced one at a time, and a count of all verdicts on top."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import isfinite, isnan

import pandas as pd

from analysis.claims.answers import Answer
from analysis.claims.judge import VERDICTS
from analysis.claims.ledger import Claim
from analysis.experiments.results import Results
from analysis.experiments.spec import natural
from analysis.provenance import caption

DASH = "\N{EN DASH}"
MARK = "<!-- experiment: {name} -->"
MARKED = re.compile(r"<!-- experiment: (\S+) -->\n")
HEADS = ("claim", "paper", "ours", "ours / paper", "seeds", "verdict")
ROUNDING = 1e-6
RULES = """\
A *number* is met within 15 %, a *ratio* on the same side and within 15 percentage points, or within the range
that is given; a *shape* as it says; *context* (other hardware, production) is recorded, not judged. Ours is the
median over the seeds, paired by seed where two systems are compared, in brackets its 95 % bootstrap interval. "Lower"
is 1 - T/T_b, "faster" is T_b/T - 1, with T the job completion time of the first system and T_b that of the second."""


def section(results: Results, picture: str, command: str) -> str:
    """The Markdown of one experiment, from its mark on."""
    spec = results.spec
    lines = [MARK.format(name=spec.name), f"## {spec.where}: {spec.title}", ""]
    lines += [f"`{command}`; {caption(results.metas)}.", "", f"![{spec.title}]({picture})", ""]
    rows = [row(claim, ours, verdict) for claim, ours, verdict in results.answers]
    if rows:
        lines += [*table(HEADS, rows), ""]
    if spec.notes:
        lines += [spec.notes.strip(), ""]
    return "\n".join(lines)


def row(claim: Claim, ours: Answer | None, verdict: str) -> list[str]:
    """The cells of ``HEADS``."""
    name = f"`{claim.id.partition('.')[2]}`" + (f" {claim.says}" if claim.says else "")
    return [name, paper_text(claim), ours_text(claim, ours), ratio_text(claim, ours), seeds_text(ours), verdict]


def paper_text(claim: Claim) -> str:
    """The value, what was printed where that differs, and the range that is accepted."""
    parts = [number(claim.value, claim.unit)] if claim.value is not None else ["holds"] if claim.shape else []
    if claim.std is not None:
        parts.append(f"\N{PLUS-MINUS SIGN} {claim.std:g}")
    if claim.printed is not None:
        parts.append(f"(printed {number(claim.printed, claim.unit)})")
    if claim.accept is not None:
        low, high = claim.accept
        ends = (f"{low:g}" if low is not None else None, f"{high:g}" if high is not None else None)
        said = f"{ends[0]} to {ends[1]}" if all(ends) else f"at least {ends[0]}" if ends[0] else f"at most {ends[1]}"
        parts.append(f"(accepted: {said})")
    return " ".join(parts) or DASH


def ours_text(claim: Claim, ours: Answer | None) -> str:
    """The median with its interval, or what a shape saw."""
    if ours is None:
        return DASH
    if ours.text:
        return ours.text
    text = number(ours.value, claim.unit)
    if isnan(ours.low) or ours.low == ours.high:
        return text
    return f"{text} [{plain(ours.low)}, {plain(ours.high)}]"


def ratio_text(claim: Claim, ours: Answer | None) -> str:
    """Ours over the paper's."""
    if ours is None or not claim.value or isnan(ours.value):
        return DASH
    return f"{ours.value / claim.value:.2f}"


def seeds_text(ours: Answer | None) -> str:
    """How many."""
    return f"{ours.seeds}" if ours and ours.seeds else DASH


def number(value: float, unit: str) -> str:
    """With its unit, as precise as it is useful."""
    return f"{plain(value)} {unit}".strip() if unit != "x" else f"{plain(value)}x"


def plain(value: float) -> str:
    """Four significant digits at most; what rounding leaves of a difference is nothing."""
    value = 0.0 if abs(value) < ROUNDING else value
    if not isfinite(value):
        return "never" if value > 0 else DASH
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(text.replace('|', chr(92) + '|') or ' ' for text in each)} |" for each in lines]


def sections(page: str) -> dict[str, str]:
    """The sections of a page by the name of their experiment."""
    parts = MARKED.split(page)[1:]
    return {name: MARK.format(name=name) + "\n" + text for name, text in zip(parts[::2], parts[1::2], strict=True)}


def compose(title: str, intro: str, parts: dict[str, str], verdicts: pd.DataFrame, ledger: Sequence[Claim]) -> str:
    """The whole page; ``verdicts`` are the frames of all experiments in one (:func:`results.verdict_frame`)."""
    ordered = [parts[name].rstrip() + "\n" for name in sorted(parts, key=natural)]
    return "\n".join([f"# {title}\n", intro.strip(), "", *overview(verdicts, ledger), "", RULES, "", *ordered])


def overview(verdicts: pd.DataFrame, ledger: Sequence[Claim]) -> list[str]:
    """Claims by rule and verdict; those that no experiment here answers are named."""
    known = dict(zip(verdicts["id"], verdicts["verdict"], strict=True)) if len(verdicts) else {}
    rows = []
    for check in ("number", "ratio", "shape", "context"):
        mine = [known.get(claim.id, "not run" if claim.check != "context" else "context") for claim in ledger]
        mine = [verdict for verdict, claim in zip(mine, ledger, strict=True) if claim.check == check]
        rows.append([check, f"{len(mine)}", *(f"{mine.count(verdict)}" for verdict in VERDICTS)])
    total = [f"{sum(int(each[column]) for each in rows)}" for column in range(1, len(rows[0]))]
    lines = table(["rule", "claims", *VERDICTS], [*rows, ["all", *total]])
    missed = [name for name, verdict in known.items() if verdict == "missed"]
    if missed:
        lines += ["", "Missed: " + ", ".join(f"`{name.partition('.')[2]}`" for name in missed) + "."]
    unanswered = [claim for claim in ledger if claim.experiment is None]
    if unanswered:
        lines += ["", "Answered by nothing here: " + "; ".join(_why(claim) for claim in unanswered) + "."]
    return lines


def _why(claim: Claim) -> str:
    return f"`{claim.id.partition('.')[2]}`" + (f" ({claim.note})" if claim.note else "")
