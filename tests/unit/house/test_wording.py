"""Marks of the three rules of docs/style.md in pages and code may only become fewer; a planted mark is found."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runs import ROOT

PAGES = ("README.md", "CONTRIBUTING.md", "DESIGN.md", "docs")
CODE = ("analysis", "injectors", "predictors", "reading", "runtime", "scripts", "stragglab", "strategies", "workloads")
VERB = "(?:is|are|was|has|have|does|do|did|can|must|will|may)"
RULES = {
    "a clause without a noun": (
        r"(?:^|[.;] +)(?:who|what|whatever) (?=\w)(?![^.|]*\?)(?!\w+ \w+(?: \w+)?\. )|\bwhoever\b"
    ),
    "a noun or a verb left out": rf"\b(?:that|those) of\b|, (?:and )?so {VERB}\b|, nor {VERB}\b|\bone of (?-i:[A-Z])",
    "a word of our own": r"\b(?:un)?lawful\b|\bbeyond doubt\b|\balive\b|\btold\b|\banew\b|\bof no use\b",
}
"""What breaks a rule of docs/style.md, as a regular expression over a paragraph, code in quotes left out."""
MOST = {"pages": (2, 5, 2), "code": (29, 19, 1)}
"""How many there may be, by rule. Lower a number when you have lowered its count; never raise one."""
STYLE = ROOT / "docs" / "style.md"
"""Shows what not to write."""


def files(places: tuple[str, ...], suffix: str) -> Iterator[Path]:
    for place in places:
        path = ROOT / place
        yield from [path] if path.is_file() else sorted(path.rglob(f"*{suffix}"))


def page_prose(text: str) -> Iterator[str]:
    """The paragraphs, list items and rows of a page, without headings, code and links' targets."""
    text = re.sub(r"^```.*?^```|^#.*?$|^\| ---.*?$|<!--.*?-->", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`]*`", "x", re.sub(r"\]\([^)]*\)", "]", text))
    for part in re.split(r"\n\s*\n|\n(?=[|*-] |\d+\. )", text):
        yield re.sub(r"^(?:-|\d+\.) ", "", " ".join(part.replace("*", "").split()))


def code_prose(text: str) -> Iterator[str]:
    """The comments, docstrings and messages of a module."""
    yield from re.findall(r"(?:^|\s)# (.*)$", text, re.MULTILINE)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for part in re.split(r"\n\s*\n", node.value):
                yield " ".join(re.sub(r"``[^`]*``", "x", part).split())


def marks(prose: Iterator[str]) -> Iterator[tuple[str, str]]:
    """The broken rule and the words around it."""
    for part in prose:
        for rule, mark in RULES.items():
            for found in re.finditer(mark, part, re.IGNORECASE):
                yield rule, part[max(0, found.start() - 30) : found.end() + 30]


def counted(kind: str) -> tuple[Counter[str], list[str]]:
    count, shown = Counter[str](), []
    pages = kind == "pages"
    for path in files(PAGES if pages else CODE, ".md" if pages else ".py"):
        if path == STYLE:
            continue
        for rule, words in marks((page_prose if pages else code_prose)(path.read_text())):
            count[rule] += 1
            shown.append(f"{path.relative_to(ROOT)}: {rule}: ... {words} ...")
    return count, shown


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", MOST)
def test_the_marks_of_hard_sentences_become_fewer(kind: str) -> None:
    count, shown = counted(kind)
    most = dict(zip(RULES, MOST[kind], strict=True))
    more = {rule: f"{count[rule]} instead of at most {most[rule]}" for rule in RULES if count[rule] > most[rule]}
    assert not more, f"{more}; docs/style.md has the rules\n" + "\n".join(
        one for one in shown if any(rule in one for rule in more)
    )


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("A task waits; who holds something cannot leave.", [0]),
        ("What stragglers cost, and what would help?", []),
        ("It says what stragglers cost, who is slow, what helps.", []),
        ("Its end is that of all tasks, and so is the job's.", [1, 1]),
        ("Every update of BSP waits for all, one of ASP for one.", [1]),
        ("One of the workers waits, and so on.", []),
        ("A lawful answer, `told()` by nobody", [2]),
        ("```\nwho is alive\n```\n", []),
    ],
)
def test_a_planted_mark_is_found(text: str, rules: list[int]) -> None:
    names = list(RULES)
    assert [rule for rule, _ in marks(page_prose(text))] == [names[rule] for rule in rules]


def test_comments_docstrings_and_messages_are_searched() -> None:
    text = '"""What is told.\n\nNot ``told``."""\nx = 1  # alive\nraise ValueError("so far, so good: those of x")\n'
    first, second, third = RULES
    assert Counter(rule for rule, _ in marks(code_prose(text))) == {first: 1, second: 1, third: 2}
