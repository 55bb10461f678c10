"""The first page: its numbers are on the generated pages that it sums up, its code runs, its pictures are light.

The code of the tutorial and the cluster that a page describes run, too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from analysis.measures.harm import TOLERATED
from stragglab import running
from stragglab.commands.new import main as new_project
from tests.support.cli import run_cli
from tests.support.runs import ROOT

CASES = re.compile(r"^- JCT \(job completion time\) within 5 %: (\d+) of (\d+) cases(.*)$", re.MULTILINE)
PAIRS = re.compile(
    r"^- pairs of strategies that JCT distinguishes live: (\d+) of (\d+) in the same order, (\d+) swapped", re.MULTILINE
)
LOSSES = re.compile(r"^- losses of BSP bit-identical: (\d+ of \d+) pairs", re.MULTILINE)
SIDES = re.compile(r"^- \*\*Side\*\* holds in (\d+) of (\d+) decided observations", re.MULTILINE)
SIZES = re.compile(r"^- \*\*Size\*\* holds or is larger in (\d+) of (\d+) decided observations", re.MULTILINE)
HARMED = re.compile(r"^(\d+) of (\d+) cells are more than 3% slower than BSP", re.MULTILINE)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MOST_WORDS = {"README.md": 1100, "DESIGN.md": 4000}
MOST_LINES = 12


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in one language; without one: what is typed and printed."""
    return [text for name, text in BLOCK.findall((ROOT / page).read_text()) if name == language]


def found(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    """The groups of the first match, which must be there."""
    match = pattern.search(text)
    assert match is not None, pattern.pattern
    return match.groups()


def sentences(fidelity: str, papers: str, harm: str) -> Iterator[str]:
    """What the first page says by these three pages."""
    yield f"bit-identical losses in {found(LOSSES, fidelity)[0]} pairs"
    within, cases, others = found(CASES, fidelity)
    names = re.search(r"; not ([^;]*)", others)
    outside = len(names[1].split(", ")) if names else 0
    unclear = int(cases) - int(within) - outside
    yield (
        f"In {within} of {cases} cases the virtual JCT is within 5 % of the live one; {unclear} are inconclusive, "
        f"{outside or 'none'} {'are' if outside > 1 else 'is'} outside"
    )
    kept, pairs, swapped = found(PAIRS, fidelity)
    order = f"puts {kept} in the same order and swaps {'none' if swapped == '0' else swapped}"
    yield f"Of {pairs} pairs of strategies that live runs tell apart, the virtual clock {order}"
    yield "The side holds in {} of {} decided observations".format(*found(SIDES, papers))
    yield "the size holds or is larger in {} of {}".format(*found(SIZES, papers))
    harmed, cells = (sum(map(int, numbers)) for numbers in zip(*HARMED.findall(harm), strict=True))
    yield f"In {harmed} of {cells} combinations of strategy, straggler and cluster size"


def missing(first_page: str, fidelity: str, papers: str, harm: str) -> list[str]:
    said = " ".join(first_page.split())
    return [one for one in sentences(fidelity, papers, harm) if one not in said]


FOUND = [(ROOT / page).read_text() for page in ("docs/fidelity.md", "docs/paper/README.md", "docs/harm.md")]


def test_the_first_page_says_what_the_others_found() -> None:
    assert missing((ROOT / "README.md").read_text(), *FOUND) == []


def test_other_numbers_are_caught() -> None:
    page = " ".join((ROOT / "README.md").read_text().split())
    for said in sentences(*FOUND):
        assert missing(page.replace(said, re.sub(r"\d+", "0", said)), *FOUND) == [said]


def test_the_answer_in_short_is_that_of_its_picture() -> None:
    """A worker is slow: the row ``persistent``; a difference of 3 % counts, as on the page of harm."""
    said = "most save time if a worker is slow, and half cost time if a server or a link is slow"
    assert said in " ".join((ROOT / "README.md").read_text().split())
    ratios = pd.read_csv(ROOT / "docs" / "images" / "harm_front.csv").set_index("straggler")["ratio"]
    assert len(ratios["persistent"]) == 12
    assert (ratios["persistent"] < 1 / TOLERATED).sum() > 9
    assert [(ratios[slow] > TOLERATED).sum() for slow in ("persistent_server", "link_throttle")] == [6, 6]


def test_the_first_pages_are_short_and_their_pictures_light() -> None:
    for page, most in MOST_WORDS.items():
        assert len((ROOT / page).read_text().split()) <= most
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", (ROOT / "README.md").read_text())
    assert len(pictures) == 3
    assert all((ROOT / picture).stat().st_size < 200_000 for picture in pictures)


def test_the_python_of_the_first_page_prints_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exactly the block that the page shows, in a directory of its own; its six runs are forks of this process."""
    for name in ("torch", "sklearn.datasets", "runtime.run.preflight", "runtime.virtual", "analysis.reports.finish"):
        import_module(name)  # once, for all forks
    (code,) = blocks("README.md", "python")
    assert len(code.splitlines()) <= MOST_LINES

    def forked(words: list[str], **_: object) -> SimpleNamespace:
        done = run_cli(*words[2:], cwd=tmp_path)
        return SimpleNamespace(returncode=done.exit_code, stderr=done.err)

    monkeypatch.setattr(running, "subprocess", SimpleNamespace(run=forked, PIPE=subprocess.PIPE))
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    verdict = r"ASP is faster: JCT relative to BSP 0\.\d\d \[0\.\d\d, 0\.\d\d\]\n"
    assert re.fullmatch(verdict, capsys.readouterr().out)


def python(*words: str, at: Path) -> str:
    """What a program prints that is started in a folder."""
    there = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *words], cwd=at, env=there, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long(like="test_the_python_of_the_first_page_prints_a_verdict")
@pytest.mark.timeout(900)
def test_the_tutorial_has_twenty_lines_and_prints_what_it_says(tmp_path: Path) -> None:
    (code,), printed = blocks("docs/tutorial.md", "python"), blocks("docs/tutorial.md", "")[0].splitlines()
    assert len(code.splitlines()) <= 20
    said = python("-c", code, at=tmp_path).splitlines()
    assert [line for line in printed if line not in said] == []


@pytest.mark.long(like="test_the_python_of_the_first_page_prints_a_verdict")
@pytest.mark.timeout(900)
def test_the_cluster_that_the_page_describes_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert new_project(["my_lab"]) == 0
    cluster, costs = blocks("docs/your_cluster.md", "yaml")
    (tmp_path / "my_lab" / "conf" / "cluster").mkdir()
    (tmp_path / "my_lab" / "conf" / "cluster" / "my_cluster.yaml").write_text(cluster)
    (tmp_path / "my_lab" / "my_costs.yaml").write_text(costs)
    (command,) = blocks("docs/your_cluster.md", "")
    first, *words = command.replace("\\\n", " ").replace("seed=0,1,2", "draw=false").split()
    assert first == "stragglab"
    said = python(str(ROOT / "run.py"), *words, at=tmp_path)
    assert re.search(r"^ LB-BSP .* 0\.9\d ", said, re.MULTILINE)
