"""``scripts/mutants.py`` on a project of one function: what is killed, what survives, what is not asked again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.compiling import compile_module
from scripts.mutant_lists import read_lists
from scripts.mutant_runs import MOST_S
from tests.support.runs import ROOT

SOURCE = "def sign(number):\n    if number < 0:\n        return -1\n    return 1\n"
TESTS = "from small import sign\n\ndef test_sign():\n    assert sign(-2) == -1\n    assert sign(2) == 1\n"
LIST = """
- file: small.py
  tests: [test_small.py]
  mutants:
    - {breaks: Signs are swapped., find: return -1, put: return 5}
    - {breaks: Zero is negative., find: number < 0, put: number <= 0}
    - {breaks: Nothing., find: return 1, put: return 2 - 1, equivalent: It is the same number.}
    - {breaks: All is negative., find: 'if number < 0:', put: 'while True:', tests: [test_small.py]}
"""

IN_C = """#include <Python.h>
#include "sign.h"
static PyObject *call(PyObject *module, PyObject *number) { return PyLong_FromLong(sign(PyLong_AsLong(number))); }
static PyMethodDef methods[] = {{"sign", call, METH_O, ""}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_small", .m_size = -1, .m_methods = methods};
PyMODINIT_FUNC PyInit__small(void) { return PyModule_Create(&definition); }
"""
SIGN = "static long sign(long number) {\n    return number < 0 ? -1 : 1;\n}\n"
LIST_IN_C = """
- file: sign.h
  tests: [test_small.py]
  mutants:
    - {breaks: Signs are swapped., find: "? -1 : 1", put: "? 1 : -1"}
    - {breaks: Zero is negative., find: number < 0, put: number <= 0}
    - {breaks: It is no C., find: return number, put: return return number}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in (("small.py", SOURCE), ("test_small.py", TESTS), ("tests/mutants/all.yaml", LIST)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".gitignore").write_text("/out/\n__pycache__/\n")
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    return tmp_path


def mutants(project: Path, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/mutants.py"), "--root", str(project), "--no-preload", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.long(like="test_a_bug_goes_with_its_text_to_another_file")
def test_what_is_killed_what_survives_and_what_is_known(project: Path) -> None:
    code, out, err = mutants(project, "--least", "0.6")
    assert (code, err) == (0, "")
    assert "survived: small.py: number < 0  ->  number <= 0\n    Zero is negative." in out
    assert out.splitlines()[-1].split() == ["all", "4", "1", "2", "1", "66.7%"]
    rows = [json.loads(line) for line in (project / "out/mutants.jsonl").read_text().splitlines()]
    assert sorted(row["verdict"] for row in rows) == ["killed", "killed", "survived", "survived"]
    assert mutants(project)[0] == 1, "two of three are not enough"
    assert len((project / "out/mutants.jsonl").read_text().splitlines()) == 4, "nothing was asked again"
    (project / "test_small.py").write_text(TESTS + "    assert sign(0) == 1\n")
    code, out, _ = mutants(project, "small.py")
    assert (code, out.splitlines()[-1].split()) == (0, ["all", "4", "1", "3", "0", "100.0%"])
    assert (project / "small.py").read_text() == SOURCE, "the tree itself stays as it is"


@pytest.mark.long(like="test_a_bug_goes_with_its_text_to_another_file")
def test_a_bug_is_found_in_a_package_that_the_script_imports_itself(project: Path) -> None:
    """What was imported before a bug was planted would not have it."""
    (project / "runtime").mkdir()
    (project / "small.py").rename(project / "runtime/native.py")
    (project / "test_small.py").write_text(TESTS.replace("small", "runtime.native") + "    assert sign(0) == 1\n")
    (project / "tests/mutants/all.yaml").write_text(LIST.replace("small.py\n", "runtime/native.py\n", 1))
    code, out, err = mutants(project)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].split() == ["all", "4", "1", "3", "0", "100.0%"]


def test_a_bug_in_c_is_compiled_in_the_copy(project: Path) -> None:
    (project / "small.py").unlink()
    for name, text in (("_small.c", IN_C), ("sign.h", SIGN), ("tests/mutants/all.yaml", LIST_IN_C)):
        (project / name).write_text(text)
    (project / "test_small.py").write_text(TESTS.replace("small", "_small"))
    assert compile_module(project / "_small.c") == ""
    code, out, err = mutants(project, "--jobs", "1")
    assert (code, err) == (1, "")
    assert out.splitlines()[-1].split() == ["all", "3", "0", "1", "1", "33.3%"]
    assert "untested: sign.h: return number" in out
    assert (project / "sign.h").read_text() == SIGN


OF_C = """#include <Python.h>
#include "value.h"
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_value", .m_size = -1};
PyMODINIT_FUNC PyInit__value(void) {
    PyObject *made = PyModule_Create(&module);
    return made && !PyModule_AddIntConstant(made, "VALUE", VALUE) ? made : NULL;
}
"""


@pytest.mark.long(like="test_a_bug_goes_with_its_text_to_another_file")
def test_a_bug_in_c_is_compiled_and_later_ones_are_not_tested_with_it(project: Path) -> None:
    folder = project / "runtime"
    folder.mkdir()
    (folder / "_value.c").write_text(OF_C)
    (folder / "value.h").write_text("enum { VALUE = 4 };\n")
    (folder / "sign.py").write_text("from runtime import _value\n\nPLUS = 0\nfound = _value.VALUE + PLUS\n")
    assert compile_module(folder / "_value.c") == ""
    head = "import os\nfrom runtime.sign import found\n\ndef test_it():\n"
    body = '    assert os.environ["STRAGGLAB_NATIVE"] == ""\n    assert found == 4\n'
    (project / "test_small.py").write_text(head + body)
    (project / "tests/mutants/all.yaml").write_text("""
- file: runtime/value.h
  native: true
  tests: [test_small.py]
  mutants:
    - {breaks: It is less., find: VALUE = 4, put: VALUE = 3}
    - {breaks: Nothing., find: VALUE = 4, put: VALUE = 2 + 2}
- file: runtime/sign.py
  native: true
  tests: [test_small.py]
  mutants:
    - {breaks: Nothing., find: PLUS = 0, put: PLUS = 1 - 1}
""")
    (project / ".gitignore").write_text("/out/\n__pycache__/\n*.so\n")
    code, out, err = mutants(project, "--jobs", "1")
    assert (code, err) == (1, "")
    assert out.splitlines()[-1].split() == ["all", "3", "0", "1", "2", "33.3%"]


@pytest.mark.long(like="test_a_bug_goes_with_its_text_to_another_file")
def test_tests_that_fail_anyway_kill_nothing(project: Path) -> None:
    (project / "test_small.py").write_text(TESTS + "    assert sign(0) == 0\n")
    code, out, err = mutants(project)
    assert code == 1
    assert err.startswith("these tests fail without any mutant: test_small.py\n")
    assert "assert sign(0) == 0" in err
    assert out.count("untested: ") == 3


@pytest.mark.long(like="test_a_bug_goes_with_its_text_to_another_file")
def test_a_bug_that_never_ends_is_given_little_more_than_its_tests_take(project: Path) -> None:
    """Ten seconds and a few of this processor, of which two minutes are the most."""
    text = LIST.replace("return -1, put: return 5", '"    return -1", put: "    while True: pass"')
    (project / "tests/mutants/all.yaml").write_text(text)
    assert MOST_S > 100, "which is what the call below may take"
    _, out, err = mutants(project, "--jobs", "1")
    assert err == ""
    assert out.splitlines()[-1].split() == ["all", "4", "1", "2", "1", "66.7%"]


def test_a_bug_goes_with_its_text_to_another_file(project: Path) -> None:
    (project / "parts").mkdir()
    (project / "parts/sign.py").write_text(SOURCE.replace("sign(number)", "sign_of(number)"))
    (project / "small.py").write_text("from parts.sign import sign_of as sign\n")
    code, out, _ = mutants(project, "--repair")
    assert code == 0
    assert "small.py: 'return -1' goes to parts/sign.py\n" in out
    moved = read_lists(project)
    assert {mutant.file for mutant in moved} == {"parts/sign.py"}
    assert [mutant.find for mutant in moved] == ["return -1", "number < 0", "return 1", "if number < 0:"]
    assert mutants(project, "--repair", "--list")[1] == "", "nothing is left to be moved"
    (project / "parts/sign.py").write_text("")
    assert mutants(project, "--repair")[0] == 1
