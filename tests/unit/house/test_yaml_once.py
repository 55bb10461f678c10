"""The plugin that parses a YAML text once gives everybody a copy of its own, and PyYAML's own messages."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support import yaml_once


def test_who_changes_what_was_read_changes_nothing_for_others() -> None:
    assert yaml.load is yaml_once.load
    text = "a: [1, {b: 2}]\n"
    first = yaml.safe_load(text)
    first["a"][1]["b"] = 3
    assert yaml.safe_load(text) == {"a": [1, {"b": 2}]}


def test_a_file_that_was_changed_is_read_again(tmp_path: Path) -> None:
    for value in (1, 2):
        (tmp_path / "x.yaml").write_text(f"a: {value}\n")
        with (tmp_path / "x.yaml").open() as file:
            assert yaml.safe_load(file) == {"a": value}


@pytest.mark.parametrize("data", [b"a: [1\n", b"\x89PNG\r\n"])
def test_an_error_names_the_file(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes(data)
    for _ in range(2):
        with (tmp_path / "bad.yaml").open("rb") as file, pytest.raises(yaml.YAMLError, match=r"bad\.yaml"):
            yaml.safe_load(file)
