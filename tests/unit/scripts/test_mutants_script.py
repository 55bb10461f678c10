"""``scripts/mutation`` on projects of one function: what is drawn, by what it is tested, what is not asked again."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.compiling import is_c
from scripts.mutation.coverage_of_tests import Coverage, declared_names, statement
from scripts.mutation.operators import Mutant, Operators, draw, make_written, one_line, read_lists, repair
from tests.support.runs import ROOT

SOURCE = '''"""Signs + numbers."""
from __future__ import annotations


def sign(number: int | float) -> int:
    if number < 0:
        return -1
    return abs(
        +1
    )
'''
TESTS = "from runtime.sign import sign\n\ndef test_sign():\n    assert sign(-2) == -1\n    assert sign(2) == 1\n"
LISTED = "runtime/sign.py:\n  - {find: number < 0, put: number <= 0, %s: It is so.}\n"

IN_C = """#include <Python.h>
#include "sign.h"
static PyObject *call(PyObject *module, PyObject *number) { return PyLong_FromLong(sign(PyLong_AsLong(number))); }
static PyMethodDef methods[] = {{"sign", call, METH_O, ""}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_sign", .m_size = -1, .m_methods = methods};
PyMODINIT_FUNC PyInit__sign(void) { return PyModule_Create(&definition); }
"""
SIGN = "static long sign(long number) {\n    if (number < 0)\n        return -1;\n    return 1;\n}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in (("runtime/sign.py", SOURCE), ("tests/unit/test_sign.py", TESTS), (".gitignore", "/out/\n")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "tests/mutants").mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    return tmp_path


def mutants(project: Path, *words: str) -> tuple[int, str]:
    program = [sys.executable, "-m", "scripts.mutation.mutants", "--root", str(project), "--no-preload", "--jobs", "1"]
    done = subprocess.run([*program, *words], capture_output=True, text=True, check=False, timeout=100, cwd=ROOT)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def row(project: Path) -> list[str]:
    """The last row of the CSV file: verdict and what noticed."""
    with (project / "out/mutants/verdicts.csv").open(newline="") as file:
        last = list(csv.DictReader(file))[-1]
    return [last["verdict"], last["by"]]


def test_what_operators_make_of_a_line_is_valid_if_it_could_matter(project: Path) -> None:
    operators = Operators(project, "runtime/sign.py")
    of_line = {line: [one_line(mutant.new) for mutant in operators.of_line(line)] for line in range(1, 11)}
    assert "if number <= 0:" in of_line[6]
    assert of_line[5] == [], "annotations and names of arguments are the type checker's"
    for mutant in operators.of_line(1):
        assert not operators.is_valid(mutant), "a docstring"
    for old, new, valid in (
        ("number < 0", "number <= 0", True),
        ("number < 0", "number != 0", True),
        ("number < 0", "(number) < 0", False),
        ("number < 0", "number < ", False),
        ("number < 0", "numbers < 0", False),
        ("int | float", "int & float", False),
        ("return -1", "break", False),
    ):
        assert operators.is_valid(make_written("runtime/sign.py", SOURCE, old, new)) == valid, new


def test_a_draw_is_the_beginning_of_a_longer_one_and_knows_no_other_file(project: Path) -> None:
    few, all_of_them = (draw(project, ["runtime"], count, 1) for count in (2, 99))
    assert all_of_them[:2] == few
    assert sorted(mutant.line for mutant in all_of_them) == [6, 7, 9]
    assert {mutant.name for mutant in draw(project, ["runtime"], 99, 2)} != {mutant.name for mutant in all_of_them}
    (project / "runtime/sign.py").write_text(SOURCE.replace("\n\n\n", "\nCHANGED = 3\n\n\n"))
    (project / "runtime/other.py").write_text("OTHER = 3\n")
    later = draw(project, ["runtime"], 99, 1)
    ours = [(mutant.line - 1, mutant.new) for mutant in later if mutant.file == "runtime/sign.py" and mutant.line > 3]
    assert ours == [(mutant.line, mutant.new) for mutant in all_of_them]
    assert [mutant.line for mutant in later if mutant.file == "runtime/other.py"] == [1]


def test_what_is_written_goes_with_its_text_to_another_file(project: Path) -> None:
    path = project / "tests/mutants/all.yaml"
    path.write_text("# A comment.\n" + LISTED % "breaks" + "  - {find: gone, put: '', breaks: Nothing.}\n")
    (project / "runtime/sign.py").rename(project / "runtime/signs.py")
    assert list(repair(project)) == [
        "runtime/sign.py: 'number < 0' goes to runtime/signs.py",
        "runtime/sign.py: 'gone' is dropped",
    ]
    assert path.read_text().startswith("# A comment.\nruntime/signs.py:\n- find: number < 0\n")
    assert [mutant.line for mutant in read_lists(project)] == [6]
    assert list(repair(project)) == []


def test_a_line_belongs_to_its_statement_and_a_head_has_no_body(project: Path) -> None:
    path = project / "runtime/sign.py"
    assert statement(path, 9, 9) == {8, 9, 10}
    assert statement(path, 6, 6) == {6}
    assert statement(path, 6, 7) == {6, 7}
    path.with_suffix(".h").write_text(SIGN)
    assert statement(path.with_suffix(".h"), 2, 2) == {2}


def recorded(project: Path, *rows: tuple[str, float, list[int]]) -> Coverage:
    found = Coverage(project, project / "coverage.jsonl")
    text = ""
    for test, seconds, lines in rows:
        (project / test).write_text("")
        of_file = {"runtime/sign.py": lines}
        text += json.dumps([test, seconds, of_file, found._key(test, of_file)]) + "\n"
    (project / "coverage.jsonl").write_text(text)
    return Coverage(project, project / "coverage.jsonl")


def test_the_most_thorough_in_a_second_comes_first_within_limits(project: Path) -> None:
    head, body = (Mutant("runtime/sign.py", line, "x\n", "y\n") for line in (6, 9))
    rows = [
        ("test_imports.py", 1.0, [5]),
        ("test_half.py", 1.0, [5, 6]),
        ("test_all.py", 1.5, [5, 6, 7, 8]),
        ("test_long.py", 25.0, [5, 6, 7, 8]),
    ]
    coverage = recorded(project, *rows)
    assert coverage.tests_of(head) == ["test_all.py", "test_half.py"]
    assert coverage.tests_of(body) == ["test_all.py"]
    assert recorded(project, rows[0], rows[3]).tests_of(body) == ["test_long.py"], "the only one may be long"
    assert recorded(project, rows[0]).tests_of(body) == []
    (project / "runtime/sign.py").write_text(SOURCE + "\n")
    assert Coverage(project, project / "coverage.jsonl").rows == {}, "forgotten with what the test executes"


def test_what_is_declared_is_tested_by_who_mentions_it(project: Path) -> None:
    path = project / "runtime/sign.py"
    path.write_text(
        "class Sign:\n    plus: int = 1\n    minus: int = 2\n\n    def of(self):\n        return self.minus\n"
    )
    assert [declared_names(path, line) for line in (1, 2, 3, 6)] == [{"Sign"}, {"plus"}, {"minus"}, set()]
    rows = [("test_imports.py", 1.0, [1, 2, 3, 5]), ("test_uses.py", 2.0, [1, 2, 3, 5, 6])]
    coverage = recorded(project, *rows)
    assert coverage.tests_of(Mutant("runtime/sign.py", 3, "x\n", "y\n")) == ["test_uses.py", "test_imports.py"]
    assert coverage.tests_of(Mutant("runtime/sign.py", 2, "x\n", "y\n")) == ["test_imports.py", "test_uses.py"]


@pytest.mark.long(like="test_what_operators_make_of_a_line_is_valid_if_it_could_matter")
def test_a_bug_survives_until_there_is_a_test_and_is_not_asked_for_again(project: Path) -> None:
    (project / "tests/mutants/all.yaml").write_text(LISTED % "breaks")
    code, out = mutants(project, "--written", "--report", str(project / "report.md"))
    assert code == 1
    assert "survived: runtime/sign.py:6: if number < 0:  ->  if number <= 0:" in out
    assert "| all | 1 | 0 | 0 | 1 | 0 | 0.0% |" in (project / "report.md").read_text()
    (project / "tests/unit/test_sign.py").write_text(TESTS + "    assert sign(0) == 1\n")
    for _ in range(2):
        assert mutants(project, "--written")[0] == 0
        assert row(project) == ["killed", "FAILED tests/unit/test_sign.py::test_sign"]
    assert len((project / "out/mutants/verdicts.csv").read_text().splitlines()) == 3
    assert (project / "runtime/sign.py").read_text() == SOURCE, "the tree itself stays as it is"


@pytest.mark.long(like="test_what_operators_make_of_a_line_is_valid_if_it_could_matter")
def test_a_bug_in_c_is_compiled_and_tested_by_who_executes_it(project: Path) -> None:
    (project / "runtime/sign.py").unlink()
    for name, text in (("_sign.c", IN_C), ("sign.h", SIGN)):
        (project / "runtime/deep").mkdir(exist_ok=True)
        (project / "runtime/deep" / name).write_text(text)
    (project / "tests/unit/test_sign.py").write_text(TESTS.replace("runtime.sign", "runtime.deep._sign"))
    header = project / "runtime/deep/sign.h"
    assert is_c(header, SIGN.replace("-1", "5"))
    assert not is_c(header, SIGN.replace("-1", "return"))
    lists = project / "tests/mutants/all.yaml"
    lists.write_text('runtime/deep/sign.h:\n  - {find: return -1, put: return 5, breaks: "Signs."}\n')
    assert mutants(project, "--written")[0] == 0
    assert row(project) == ["killed", "FAILED tests/unit/test_sign.py::test_sign"]
    lists.write_text('runtime/deep/sign.h:\n  - {find: return 1, put: return 2 - 1, breaks: "Nothing."}\n')
    mutants(project, "--written")
    assert row(project) == ["equivalent", "it compiles to the same code"]
    assert header.read_text() == SIGN
