"""``iterations.parquet``: compact, to the bit, and the same bytes however rows come; older files say the same."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import runtime.record.columns as module
from runtime.record.columns import FLOATS, INTEGERS, IterationWriter

Columns = dict[str, Any]
ROWS = 1000


def columns(rows: int = ROWS) -> Columns:
    """Values that a smaller type, or a coarser step, would change."""
    noise = np.random.default_rng(1)
    found: Columns = {name: noise.integers(-(2**62), 2**62, rows) for name in INTEGERS}
    found |= {name: 1e5 + noise.random(rows) * 1e-3 for name in FLOATS}
    found["applied_t"][::7] = np.nan
    return found


def written(run_dir: Path, blocks: list[Columns], rows: list[Columns] | None = None) -> Path:
    run_dir.mkdir()
    writer = IterationWriter(run_dir)
    for block in blocks:
        writer.block(block)
    for block in rows or []:
        for row in zip(*(block[name].tolist() for name in (*INTEGERS, *FLOATS)), strict=True):
            writer.row(row)
    writer.close()
    return run_dir / "iterations.parquet"


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    wanted = columns()
    found = pd.read_parquet(written(tmp_path / "run", [wanted]))
    assert list(found) == [*INTEGERS, *FLOATS]
    for name, values in wanted.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)


def test_the_bytes_do_not_depend_on_how_rows_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In groups of 300, here."""
    monkeypatch.setattr(module, "GROUP_ROWS", 300)
    monkeypatch.setattr(module, "PENDING_ROWS", 70)
    whole = columns()
    parts = [{name: values[a:b] for name, values in whole.items()} for a, b in pairwise([0, 1, 299, 950, ROWS])]
    one = written(tmp_path / "one", [whole])
    assert written(tmp_path / "parts", parts).read_bytes() == one.read_bytes()
    assert written(tmp_path / "rows", [], [whole]).read_bytes() == one.read_bytes()
    about = pq.read_metadata(one)
    assert [about.row_group(group).num_rows for group in range(about.num_row_groups)] == [300, 300, 300, 100]
