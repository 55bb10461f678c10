"""Standard streams without a reader: the program continues with its own exit code, and no file gets their numbers."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from reading.harmless import harmless
from tests.support.runs import ROOT

PRINTS = """
    import os, sys
    from runtime.run.streams import run_program

    def main():
        with open(sys.argv[1], "wb", buffering=0) as file:
            file.write(b"begun ")
            for number in range(2000):
                print("x" * 100)
                print("y" * 100, file=sys.stderr, flush=True)
            os.system("echo from a child; echo from a child >&2")
            file.write(b"ended")
        return 7

    run_program("p.py", main)
"""
LOST = [
    "",
    ">&-",
    "2>&-",
    "<&-",
    ">&- 2>&-",
    "<&- >&- 2>&-",
    ">/dev/full",
    "2>/dev/full",
    ">/dev/full 2>&1",
    "2>&1 | head -1",
]


def shell(program: str, *words: str, lost: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of the program with its streams ``lost``."""
    script = f'"$0" {program} "$@" {lost}; exit ${{PIPESTATUS[0]}}'
    ended = subprocess.run(
        ["bash", "-c", script, sys.executable, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_a_terminal_that_lacks_letters_shows_others_in_their_place() -> None:
    """With ``PYTHONIOENCODING=ascii``, or where no locale is set."""
    code = "from runtime.run.streams import run_program; run_program('p', lambda: print('\\u00fc\\u2013\\udcff') or 3)"
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "???\n", "")


@pytest.mark.few(3)
@pytest.mark.parametrize("lost", LOST)
def test_a_program_goes_on(tmp_path: Path, lost: str) -> None:
    code, out, err = shell("-c", textwrap.dedent(PRINTS), str(tmp_path / "file"), lost=lost)
    assert code == 7
    assert (tmp_path / "file").read_bytes() == b"begun ended"
    assert "Error" not in out + err
    if lost in (">&-", ">/dev/full", ""):
        assert err.count("y" * 100) == 2000
    if lost in ("2>&-", "2>/dev/full", "<&-", ""):
        assert out.count("x" * 100) == 2000
    if not lost:
        assert (out.count("from a child\n"), err.count("from a child\n")) == (1, 1)


EVIL = "1.2\x1b]0;owned\x07\x1b[2J\rnode0\x9b31m \u202eesrever\u2069\x00\x7f"
SHOWN = r"1.2\u001b]0;owned\u0007\u001b[2J\u000dnode0\u009b31m \u202eesrever\u2069\u0000\u007f"
PRINTS_EVIL = """
    import sys
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
    from runtime.errors import print_error
    from runtime.run.streams import run_program

    def main():
        evil = sys.argv[1]
        evil = evil.encode().decode("unicode_escape")
        print(evil)
        print(evil, file=sys.stderr)
        sys.stderr.write(evil + chr(10))
        print_error("p.py", evil)
        console = Console(force_terminal=True, width=300, highlight=False, markup=False)
        console.print(evil)
        table = Table(show_header=False, box=None)
        table.add_row(evil)
        console.print(table)
        console.print(Text("bold", style="bold"))
        return 0

    run_program("p.py", main)
"""


def test_no_text_makes_the_terminal_obey() -> None:
    """Whatever prints it; colours of our own pass, and lines end. Ordinary text stays as it is."""
    text = "a\tb\n\N{GREEK SMALL LETTER MU}s \N{EM DASH} \N{HEBREW LETTER ALEF}\n"
    assert harmless(text) == text
    program = textwrap.dedent(PRINTS_EVIL)
    given = EVIL.encode("unicode_escape").decode()
    done = subprocess.run([sys.executable, "-c", program, given], cwd=ROOT, capture_output=True, check=True)
    out, err = (text.decode().split("\n") for text in (done.stdout, done.stderr))
    assert [line.strip() for line in out] == [SHOWN, SHOWN, SHOWN, "\x1b[1mbold\x1b[0m", ""]
    assert err == [SHOWN, SHOWN, "p.py: " + SHOWN.replace(r"\u000d", " "), ""]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("FileNotFoundError(2, 'No such file or directory', 'a/b')", "p.py: a/b: no such file or directory\n"),
        ("OSError('gone')", "p.py: gone\n"),
        ("MemoryError()", "p.py: not enough memory"),
        ("ImportError('libx.so: failed to map segment')", "p.py: not enough memory"),
        ("ImportError('no such module')", "Traceback"),
    ],
)
def test_an_error_of_the_system_is_one_line(error: str, said: str) -> None:
    """Any other import error is a mistake of ours, whose traceback is wanted."""
    program = (
        f"from runtime.run.streams import run_program\ndef main():\n    raise {error}\nrun_program('p.py', main)\n"
    )
    code, out, err = shell("-c", program, lost="")
    assert (code, out) == (1, "")
    assert err.startswith(said)
    assert (err.count("\n") == 1) is (said != "Traceback")
