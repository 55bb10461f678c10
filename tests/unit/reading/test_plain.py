"""Plain data from YAML and JSON: within limits, each refusal one line that names the line of the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reading import Unreadable
from reading.files import open_file, read_bytes, read_text
from reading.plain import MAX_DEPTH, MAX_JSON_VALUES, MAX_YAML_BYTES, parse_json, parse_yaml


def bomb(levels: int) -> bytes:
    """A few lines that stand for 10 ** levels values."""
    lines = ["l0: &l0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]"]
    for level in range(1, levels):
        lines.append(f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]")
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (bomb(12), "line 6: holds more than 1000000 values"),
        (b"{a: " * 3000 + b"}" * 3000, f"line 1: is nested more than {MAX_DEPTH} deep"),
        (b"a: &a\n  b: *a", "line 2: *a refers to itself"),
        (b"a: *b", "line 1: *b refers to itself, or to nothing"),
        (b"a: 1\nb: 2\na: 3", "line 3: has a twice"),
        (b"a: " + b"7" * 5000, "is too large for a number"),
        (b"a: 36893488147419103232", "is too large for a number"),
        (b"a: -1.5e+999", "line 1: -1.5e+999 is too large for a number"),
        (b"a: 2026-13-45", "is not a YAML file (month must be in 1..12)"),
        (b"a: \x00", "is not a YAML file (control characters"),
        (b"a: \xc3\x28", "is not a YAML file ("),
        (b"a: !!python/object/apply:os.getcwd []", "is not a YAML file (line 1: could not determine a constructor"),
        (b"? [a]\n: 1", "is not a YAML file (line 1: found unhashable key)"),
        (b"a: !!timestamp x", "is not a YAML file ("),
        (b"--- a\n--- b", "but found another document"),
        (b" " * (MAX_YAML_BYTES + 1), "has more than 8 MiB"),
    ],
)
def test_what_is_no_yaml_of_use_is_one_line(data: bytes, said: str) -> None:
    with pytest.raises(Unreadable) as caught:
        parse_yaml(data)
    assert said in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", None),
        (b"a: {b: [1, 2.5, yes, null, text]}", {"a": {"b": [1, 2.5, True, None, "text"]}}),
        (b"d: &d {x: 1, y: 2}\ne: {<<: *d, y: 3}", {"d": {"x": 1, "y": 2}, "e": {"x": 1, "y": 3}}),
        ("a: ü".encode("utf-16"), {"a": "ü"}),
        (b"[" * 60 + b"]" * 60, None),
    ],
)
def test_other_yaml_is_what_it_says(data: bytes, found: object) -> None:
    assert found is None or parse_yaml(data) == found
    parse_yaml(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"[1e999]", "out of range"),
        (b'["\xff"]', "is not JSON"),
        (b"[" + b"1," * MAX_JSON_VALUES + b"1]", "holds more than"),
        (b'{"a": }', "malformed"),
    ],
)
def test_what_is_no_json_of_use_is_one_line(data: bytes, said: str) -> None:
    with pytest.raises(Unreadable) as caught:
        parse_json(data)
    assert said in str(caught.value)


def test_a_pipe_a_device_and_a_folder_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # nobody writes into it: whoever opens it waits
    for place, kind in ((tmp_path / "pipe", "a pipe"), (Path("/dev/zero"), "a device"), (tmp_path, "a directory")):
        with pytest.raises(Unreadable, match=rf"^cannot be read \(it is {kind}, and not a file\)$"):
            open_file(place)
    (tmp_path / "link").symlink_to("/dev/zero")
    with pytest.raises(Unreadable, match="it is a device"):
        read_bytes(tmp_path / "link", 10)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfabc")
    assert read_text(path, 6) == "abc"
    with pytest.raises(Unreadable, match="has more than 5 bytes"):
        read_bytes(path, 5)
    for data, said in ((b"\xff\xfea\x00", "it is UTF-16"), (b"\x80", "it is not UTF-8 text")):
        path.write_bytes(data)
        with pytest.raises(Unreadable, match=said):
            read_text(path, 10)
    for place in (tmp_path / "none", Path("a\0b")):
        with pytest.raises(Unreadable, match="cannot be read"):
            read_bytes(place, 10)
