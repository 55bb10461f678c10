"""The page about a paper: a section per experiment, replaced one at a time, and a summary of all verdicts on top."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path

import pandas as pd

from analysis.claims.answers import Answer, with_ends
from analysis.claims.judge import (
    ARITHMETIC,
    CALIBRATED,
    CONSTRUCTION,
    CONTEXT,
    DECIDED,
    JUDGED,
    LARGER,
    MET,
    MISSED,
    NOT_JUDGED,
    UNEXERCISED,
    Verdict,
    judge,
    of_group,
)
from analysis.claims.ledger import Bounds, Claim, load_ledger
from analysis.claims.pages import load_pages
from analysis.experiments.numbers import DASH, numbers, plain
from analysis.experiments.results import Results
from analysis.files import natural, write_file
from analysis.markup import markdown_lines
from analysis.records.provenance import short_caption

MARK = "<!-- experiment: {name} -->"
DIRTY = re.compile(r"Stragglab (\S+ \()?\S*-dirty")
MARKED = re.compile(r"<!-- experiment: (\S+) -->\n")
HEADS = ("claim", "paper", "ours", "seeds", "side", "size")
OURS, SEEDS = HEADS.index("ours"), HEADS.index("seeds")
QUESTIONS = ("side", "size")
SHORT = 12
"""Rows up to which a section without claims shows its numbers, and claims up to which a line names all; a file next to
the figure always has them."""
MANY = 4
"""Cases of one claim up to which all are listed (of more, the least and the largest), and claims alike in verdicts that
say nothing about us up to which each has a row."""
SILENT = (UNEXERCISED, ARITHMETIC)
"""Verdicts whose numbers say nothing about us: no part acted, or a definition was evaluated."""
RULES = (
    "Our value is the median over the seeds (paired by seed where two systems are compared), with its 95 % "
    "interval in brackets: Student's t (for a ratio, of its logarithms), or order statistics where a run never "
    'ended. One seed has no interval. "Lower" is 1 - T/T_b, "faster" is T_b/T - 1, with T the job completion time '
    "of the first system and T_b the job completion time of the second.\n\n"
    "**Side**: is the effect there? The interval of a ratio lies beyond no effect (0 %, or 1x), on the paper's "
    "side, or within the accepted range that the table gives; a shape holds in 95 % of resamples of five seeds or "
    "more. **Size**: is the effect as large? The interval of a ratio lies between two thirds and four thirds of "
    "the paper's effect, and the interval of a number within 15 % of the paper's; it is no wider than that.\n\n"
    """\
- **met**, **missed**: the whole interval is within the range, or outside. **Larger**: it lies above two thirds of the
  paper's effect and reaches beyond four thirds. **Inconclusive**: it contains a bound, is too wide, or does not exist.
  **Too close**: with 100 seeds of the same spread it still would. Of several cases the worst counts; where one
  suffices, the best, with a correspondingly higher confidence for each.
- **not exercised**: the systems gave identical results with every seed, so the part in question never acted.
  **By construction**: no system here could miss it, or systems without the part in question (the claim's *controls*)
  meet it in the same runs. **Calibrated**: something was fitted to, or chosen by, this very number. **By arithmetic**:
  a definition was evaluated, and nothing was run. **Context**: other hardware, production, another quantity, or a
  variation of ours. None of these is evidence, and a claim that is missed all the same counts as missed.
- Claims that repeat a number, or follow from one fitted degree of freedom, are one observation (`group` in
  `analysis/claims/`): the worst of them counts."""
)
README = """\
Do our runs show what the papers report? There is one page per paper. `python run.py experiment` generates them, and
`make paper` repeats all runs, but those whose rows stay (`rows/`), and regenerates all pages.

Every claim is judged twice: *side* says whether the effect is there, *size* whether it is as large as the paper's.
The [rules](#rules) are the same for all papers. Next to each figure in `images/`, `NAME.csv` has its values and
`NAME.txt` its job, machine and commit, `NAME_claims.csv` all cases of its claims and the ratios of ours to the paper's
values, and `NAME_numbers.csv` the other measures."""
READING = (
    "The [rules](README.md#rules) explain values, verdicts and files. JCT is the job completion time, "
    "BPT the batch processing time."
)


def write_page(results: Results, page: Path, picture: Path) -> None:
    """Replace the experiment's section and update the totals."""
    spec, about = results.spec, load_pages()[results.spec.paper]
    parts = sections(page.read_text()) if page.exists() else {}
    link = picture.relative_to(page.parent).as_posix()
    command = (
        f"python run.py experiment {spec.name} --minutes 60"
        if spec.keep_rows
        else f"make figures EXPERIMENT={spec.name}"
    )
    parts[spec.name] = section(results, link, command)
    ledger = list(load_ledger(spec.paper).values())
    write_file(page, compose(about.title, about.intro, parts, verdicts_of(page, spec.paper), ledger))
    papers = [
        (
            one.title,
            page_of(page.parent, paper).name,
            list(load_ledger(paper).values()),
            verdicts_of(page, paper),
        )
        for paper, one in load_pages().items()
        if page_of(page.parent, paper).exists()
    ]
    write_file(page.parent / "README.md", front(papers))


def page_of(folder: Path, paper: str) -> Path:
    """Where the page of a paper is, by the name of its ledger of claims."""
    return folder / f"{load_pages()[paper].name}.md"


def verdicts_of(page: Path, paper: str) -> pd.DataFrame:
    """The latest verdicts of a paper's experiments; a claim that moved has the verdict of its present experiment."""
    found = [pd.read_csv(path) for path in sorted((page.parent / "images").glob(f"{paper}_*_claims.csv"))]
    none = pd.DataFrame(columns=["id", "side", "size", "runtime", "experiment"])
    every = pd.concat([frame for frame in found if len(frame)] or [none], ignore_index=True)
    answering = {name: claim.experiment for name, claim in load_ledger(paper).items()}
    return every[every["id"].map(answering) == every["experiment"]]


def section(results: Results, picture: str, command: str) -> str:
    """The Markdown of one experiment, starting with its marker."""
    spec = results.spec
    lines = [MARK.format(name=spec.name), f"## {spec.where}: {spec.title}"]
    lines += [f"`{command}`; {short_caption(results.metas)}.", "", f"![{spec.where}]({picture})", ""]
    answers = results.answers
    many = many_alike([(claim.id, verdict) for claim, _, verdict in answers])
    if rows := [row(*one) for one in answers if silent_verdict(one[2]) not in many]:
        lines += [*markdown_lines(*varying(rows)), ""]
    if found := [*(line_of_alike(word, of, spec.name) for word, of in many.items()), *remarks(results.claims)]:
        lines += [*found, ""]
    heads, cells = numbers(results)
    if cells and not answers and len(cells) <= SHORT:
        lines += [*markdown_lines(heads, cells), ""]
    if spec.notes:
        lines += [spec.notes.strip(), ""]
    if results.kept:
        lines += [f"Runs: {results.kept}.", ""]
    if results.warnings:
        lines += [f"Warnings: {'; '.join(results.warnings)}.", ""]
    return "\n".join(lines)


def varying(rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows without columns that say the same of all claims: seeds go into a head, empty ones are left out."""
    heads = dict(enumerate(HEADS))
    seeds = {row[SEEDS] for row in rows}
    if len(seeds) == 1:
        del heads[SEEDS]
        heads[OURS] += "" if DASH in seeds else f" ({number_of_seeds(*seeds)})"
    for column in range(OURS + 1, len(HEADS)):
        if all(row[column] == DASH for row in rows):
            heads.pop(column, None)
    return list(heads.values()), [[row[column] for column in heads] for row in rows]


def number_of_seeds(number: str) -> str:
    """``1 seed``, ``3 seeds``."""
    return f"{number} seed{'s' * (number != '1')}"


def row(claim: Claim, ours: Answer | None, verdict: Verdict) -> list[str]:
    """The cells of ``HEADS`` for one claim."""
    name = f"`{short(claim.id)}`" + (f" {claim.says}" if claim.says else "")
    return [
        name,
        paper_text(claim),
        ours_text(claim, ours),
        seeds_text(ours),
        verdict.side or DASH,
        verdict.size or DASH,
    ]


def silent_verdict(verdict: Verdict) -> str:
    """The verdict on all questions of a claim if it is one of ``SILENT``, else nothing."""
    words = {word for word in verdict if word}
    return words.pop() if len(words) == 1 and words <= set(SILENT) else ""


def many_alike(verdicts: Sequence[tuple[str, Verdict]]) -> dict[str, list[str]]:
    """The claims of each silent verdict that more than ``MANY`` have."""
    found = {word: [name for name, verdict in verdicts if silent_verdict(verdict) == word] for word in SILENT}
    return {word: names for word, names in found.items() if len(names) > MANY}


def line_of_alike(word: str, ids: Sequence[str], experiment: str) -> str:
    """One line for many claims with the same silent verdict; a file next to the figure always has their values."""
    if len(ids) > SHORT:
        return f"- {word}: {len(ids)} claims, whose values are in `{experiment}_claims.csv`."
    return f"- {word}: {', '.join(f'`{short(name)}`' for name in ids)}."


def remarks(claims: Sequence[Claim]) -> list[str]:
    """Notes about verdicts; the same note about several claims once."""
    by_text = dict[str, list[str]]()
    for claim in claims:
        if text := remark(claim):
            by_text.setdefault(text, []).append(f"`{short(claim.id)}`")
    return [f"- {', '.join(names)}: {text}." for text, names in by_text.items()]


def remark(claim: Claim) -> str:
    """Remarks on a claim's verdicts."""
    whys = {CALIBRATED: claim.calibrated, CONSTRUCTION: claim.construction, CONTEXT: claim.departure}
    controls = " and ".join(next(reversed(one.values())) for one in claim.controls)
    held = f"{CONSTRUCTION} if {controls} would meet it, too" * bool(controls)
    return "; ".join([*(f"{word}: {why}" for word, why in whys.items() if why), *filter(None, [held, claim.note])])


def paper_text(claim: Claim) -> str:
    """The value, the printed value if it differs, and the accepted range."""
    parts = [number(claim.value, claim.unit)] if claim.value is not None else ["holds"] if claim.shape else []
    if claim.magnitude is not None:
        parts.append(f"{range_text(claim.magnitude)} {claim.unit}".rstrip())
    if claim.std is not None:
        parts.append(f"\N{PLUS-MINUS SIGN} {claim.std:g}")
    if claim.printed is not None:
        parts.append(f"(printed {number(claim.printed, claim.unit)})")
    beyond_no_effect = (1.0 if claim.unit == "x" else 0.0, None)
    implied = claim.arithmetic or claim.accept == beyond_no_effect
    if claim.accept is not None and not (parts and implied):
        parts.append(f"(accepted: {range_text(claim.accept)})")
    return " ".join(parts) or DASH


def range_text(ends: Bounds) -> str:
    """``1 to 4``, ``more than 2``, ``less than 2``, ``exactly 2``."""
    low, high = (None if end is None else f"{end:g}" for end in ends)
    if low == high:
        return f"exactly {low}"
    return f"{low} to {high}" if low and high else f"more than {low}" if low else f"less than {high}"


def ours_text(claim: Claim, ours: Answer | None) -> str:
    """The median with its interval, or what a shape check observed."""
    if ours is None:
        return DASH
    if ours.text and len(ours.cases) > MANY and claim.how != "order":
        least, most = (pick(ours.cases, key=lambda one: one.value) for pick in (min, max))
        return f"{with_ends(least)} to {with_ends(most)} {claim.unit} in {len(ours.cases)} cases".replace("  ", " ")
    if ours.text:
        return ours.text
    text = number(ours.value, claim.unit)
    if isnan(ours.low) or ours.low == ours.high:
        return text
    return f"{text} [{plain(ours.low)}, {plain(ours.high)}]"


def seeds_text(ours: Answer | None) -> str:
    """Number of seeds behind the answer, as text."""
    return f"{ours.seeds}" if ours and ours.seeds else DASH


def number(value: float, unit: str) -> str:
    """The number with its unit, with useful precision."""
    return f"{plain(value)} {unit}".strip() if unit != "x" else f"{plain(value)}x"


def sections(page: str) -> dict[str, str]:
    """The sections of a page by the name of their experiment."""
    parts = MARKED.split(page)[1:]
    return {name: MARK.format(name=name) + "\n" + text for name, text in zip(parts[::2], parts[1::2], strict=True)}


def compose(title: str, intro: str, parts: dict[str, str], verdicts: pd.DataFrame, ledger: Sequence[Claim]) -> str:
    """The whole page; ``verdicts`` are the frames of all experiments combined (:func:`results.verdict_frame`)."""
    ordered = [parts[name].rstrip() + "\n" for name in sorted(parts, key=natural)]
    changed = [name for name in sorted(parts, key=natural) if DIRTY.search(parts[name])]
    warning = [f"Made with uncommitted changes; to be repeated: {', '.join(changed)}.", ""] if changed else []
    return "\n".join(
        [f"# {title}\n", intro.strip(), "", *overview(verdicts, ledger), "", *warning, READING, "", *ordered]
    )


def overview(verdicts: pd.DataFrame, ledger: Sequence[Claim]) -> list[str]:
    """Number of claims by question and verdict; claims that miss the side are named."""
    given = verdicts_by_claim(verdicts, ledger)
    lines = [counts(question, ledger, given) for question in QUESTIONS]
    if found := [f"`{short(claim.id)}`" for claim in ledger if given[claim.id].side == MISSED]:
        lines += ["", f"Side {MISSED}: {', '.join(found)}."]
    if unanswered := [f"`{short(claim.id)}`" for claim in ledger if claim.experiment is None]:
        lines += ["", f"Not answered by any experiment here (`analysis/claims/` says why): {', '.join(unanswered)}."]
    return lines


def counts(question: str, ledger: Sequence[Claim], given: Mapping[str, Verdict]) -> str:
    """A line of verdicts: every claim for itself; the page over all papers counts observations."""
    total, *numbers = counts_by_kind([word for claim in ledger if (word := getattr(given[claim.id], question))])
    found = [f"{n} {word}" for n, word in zip(numbers, (*JUDGED, *NOT_JUDGED), strict=True) if n != "0"]
    return f"- **{question.capitalize()}** of {total} claims: {', '.join(found) or 'none'}."


def observations(question: str, ledger: Sequence[Claim], given: Mapping[str, Verdict]) -> list[str]:
    """The verdict about every observation: a group of claims, or a claim of no group."""
    groups = dict[str, list[str]]()
    for claim in ledger:
        groups.setdefault(claim.group or claim.id, []).append(getattr(given[claim.id], question))
    return [word for words in groups.values() if (word := of_group(words))]


def verdicts_by_claim(verdicts: pd.DataFrame, ledger: Sequence[Claim]) -> dict[str, Verdict]:
    """The verdicts about every claim of a ledger; unanswered claims are judged without an answer."""
    there = {}
    if len(verdicts):
        texts = verdicts[["id", "side", "size"]].astype(object).where(verdicts.notna(), "")
        there = {name: Verdict(*two) for name, *two in zip(texts["id"], texts["side"], texts["size"], strict=True)}
    return {claim.id: judge(claim, None) if _open(claim, there) else there[claim.id] for claim in ledger}


def _open(claim: Claim, there: Mapping[str, Verdict]) -> bool:
    return claim.check == "context" or claim.id not in there


def counts_by_kind(verdicts: Sequence[str]) -> list[str]:
    """The total, and the number of each kind."""
    return [f"{len(verdicts)}", *(f"{verdicts.count(verdict)}" for verdict in (*JUDGED, *NOT_JUDGED))]


def front(papers: Sequence[tuple[str, str, Sequence[Claim], pd.DataFrame]]) -> str:
    """The page over all papers, given each one's title, page, ledger and verdicts."""
    rows = []
    once: dict[str, list[str]] = {each: [] for each in QUESTIONS}
    live: dict[str, list[str]] = {each: [] for each in QUESTIONS}
    for title, page, ledger, verdicts in papers:
        given = verdicts_by_claim(verdicts, ledger)
        of_live = set(verdicts.loc[verdicts["runtime"] == "live", "id"]) if len(verdicts) else set()
        for question in QUESTIONS:
            found = observations(question, ledger, given)
            once[question] += found
            live[question] += observations(question, [claim for claim in ledger if claim.id in of_live], given)
            rows.append([f"[{title}]({page}): {question}", *counts_by_kind(found)])
    rows += [[f"**all: {each}**", *(f"**{count}**" for count in counts_by_kind(once[each]))] for each in QUESTIONS]
    rows += [[f"all, live: {each}", *counts_by_kind(live[each])] for each in QUESTIONS]
    heads = ["observations of", "number", *JUDGED, *NOT_JUDGED]
    lines = ["# Papers, reproduced", "", README, "", *markdown_lines(heads, rows), ""]
    return "\n".join([*lines, *(f"- {shares(each, once[each])}" for each in QUESTIONS), "", "## Rules", "", RULES, ""])


def shares(question: str, verdicts: Sequence[str]) -> str:
    """How many of the decided hold, and how many of these by chance, or are larger than the paper's."""
    decided = [verdict for verdict in verdicts if verdict in DECIDED]
    judged = sum(verdict in JUDGED for verdict in verdicts)
    held = sum(verdict in (MET, LARGER) for verdict in decided)
    words = "" if question == "side" else " or is larger"
    text = f"**{question.capitalize()}** holds{words} in {held} of {len(decided)} decided observations"
    if not decided:
        return f"{text}."
    if question == "side":
        more = f"; had none of the {judged} an effect, {0.025 * judged:.0f} would be met by chance"
    else:
        more = f"; {decided.count(LARGER)} of these are larger"
    return f"{text} ({held / len(decided):.0%}){more}."


def short(name: str) -> str:
    """A claim's name on the page of its paper."""
    return name.partition(".")[2]
