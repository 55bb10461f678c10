"""Lines come in blocks, the same as from the whole file; a very long one is refused before it is in memory."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reading import Unreadable, lines
from reading.lines import line_blocks


@given(st.binary(max_size=60).map(lambda data: data.replace(b"\x00", b"\n")), st.integers(1, 20))
def test_blocks_hold_every_line_once(data: bytes, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        found = [line for some in line_blocks(io.BytesIO(data)) for line in some]
    assert found == list(io.BytesIO(data))


def test_a_line_has_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 10)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    file = io.BytesIO(b"a\nb\n" + b"x" * 10_000)
    with pytest.raises(Unreadable, match=r"^line 3 has more than"):
        list(line_blocks(file))
    assert file.tell() < 200
