"""The reader of records knows the strategies' vocabulary: what it reads of an event or command is what is written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import pytest

from analysis.records import schema
from analysis.records.load import load_run
from strategies import protocol
from strategies.protocol import AnyCommand, AnyEvent, Grad, NodeUse, Timings
from tests.support.records import bsp_story

RECORD = (Path(__file__).parents[3] / "docs" / "record.md").read_text()
WRITTEN = {kind.__name__: kind for kind in (*get_args(AnyEvent), *get_args(AnyCommand))}
READ = {kind.__name__: kind for kind in (*get_args(schema.Event), *get_args(schema.Command))}


def beyond(read: type[Any], written: type[Any]) -> set[str]:
    """Fields that are read and never written."""
    return set(read.__struct_fields__) - set(written.__struct_fields__)


def test_every_type_is_known() -> None:
    assert READ.keys() == WRITTEN.keys()


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_what_is_read_is_written(name: str) -> None:
    assert not beyond(READ[name], WRITTEN[name])


def test_a_field_that_nobody_writes_is_found() -> None:
    assert beyond(schema.Injected, protocol.Started) >= {"asked", "achieved"}


@pytest.mark.parametrize("values", [Grad, NodeUse, Timings])
def test_values_are_read_as_they_are_written(values: type[Any]) -> None:
    assert getattr(schema, values.__name__) is values


@pytest.mark.parametrize(
    "values", [Timings, NodeUse, protocol.Observed, protocol.Scored, protocol.Measured, protocol.Scheduling]
)
def test_the_document_names_every_field(values: type[Any]) -> None:
    assert [name for name in values.__struct_fields__ if name != "t" and name not in RECORD] == []


TABLES = RECORD.partition("\n## tables/\n")[2].partition("\n## ")[0]
ITERATIONS = TABLES.partition("\nThe other tables:\n")[0]


def undescribed(columns: Iterable[str], text: str) -> list[str]:
    """Columns that do not stand in the text as code."""
    return [name for name in columns if f"`{name}`" not in text]


def test_every_column_of_every_table_is_described(tmp_path: Path) -> None:
    """Those of the resources of nodes stand where ``Observed`` is described; metrics have the names of the workload."""
    run = load_run(bsp_story().write(tmp_path / "run"))
    known = {*NodeUse.__struct_fields__, run.job["metric"], "loss"}
    for name, frame in run.tables.items():
        rows = [line for line in TABLES.splitlines() if line.startswith(f"| `{name}` |")]
        row = ITERATIONS if name == "iterations" else "".join(rows)
        columns = [column for column in frame.columns if column not in known or name == "iterations"]
        assert undescribed(columns, row) == []
    assert undescribed(["t", "made_up"], TABLES) == ["made_up"]
    assert [field for field in NodeUse.__struct_fields__ if field not in RECORD] == []
