"""Sums read from execution traces: a published ring of 8, made ones, and what is refused."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cluster.sum_traces import read_trace
from runtime.core.collectives.known import Summing, ring
from runtime.core.collectives.schedule import Schedule, turns_of
from runtime.core.collectives.stragglar import stragglar
from runtime.core.collectives.trace import Step, schedule_of_traces
from runtime.errors import ConfigError
from tests.support.runs import ROOT

RING = ROOT / "tests" / "logs" / "public" / "ring_of_8"


def traced(schedule: Schedule) -> list[list[Step]]:
    """What every rank does: in each round it sends, then receives."""
    ranks: list[list[Step]] = [[] for _ in range(schedule.ranks)]
    for transfers in schedule.rounds:
        for one in transfers:
            ranks[one.source].append(Step(True, one.target, 0, 4))
        for one in transfers:
            ranks[one.target].append(Step(False, one.source, 0, 4, one.adds))
    return ranks


def test_the_published_ring_is_ours() -> None:
    found, floats = read_trace(RING), 16 * 8
    assert turns_of(found, floats) == turns_of(ring(8), floats)
    summing = Summing("trace", traced=found)
    assert (summing.is_ring, summing.schedule(8), summing.schedule(7)) == (False, found, ring(7))
    assert summing.schedule(8).wrong() is None


@given(st.integers(2, 12))
def test_a_ring_of_any_size_is_found_in_its_traces(size: int) -> None:
    floats = 16 * size
    assert turns_of(schedule_of_traces(traced(ring(size))), floats) == turns_of(ring(size), floats)


SEND, TAKE = Step(True, 1, 0, 4), Step(False, 1, 0, 4, adds=True)
BACK, COME = Step(True, 0, 0, 4), Step(False, 0, 0, 4, adds=True)


@pytest.mark.parametrize(
    ("ranks", "why"),
    [
        ([[SEND], []], "rank 1 does not receive a message that rank 0 sends"),
        ([[], [COME]], "rank 1 receives a message that rank 0 does not send"),
        ([[TAKE, SEND], [COME, BACK]], "its messages wait for each other"),
        ([[SEND, SEND._replace(num_bytes=8)], []], "has messages of 4 to 8 bytes"),
        ([[SEND._replace(peer=2)], []], "rank 0 has a message with rank 2, of which there is no trace"),
        ([[SEND], [COME]], "is no sum over all ranks"),
        (traced(stragglar(8)), "is no sum over all ranks"),
    ],
)
def test_what_is_no_sum_is_refused(ranks: list[list[Step]], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        schedule_of_traces(ranks)


def test_a_folder_without_all_ranks_is_refused(tmp_path: Path) -> None:
    for rank in (0, 1, 3):
        (tmp_path / f"a.{rank}.et").write_bytes((RING / f"custom_allreduce.{rank}.et.gz").read_bytes())
    with pytest.raises(ConfigError, match="has traces of 3 ranks; name a folder"):
        read_trace(tmp_path)
    with pytest.raises(ConfigError, match="no such file or directory; name a folder"):
        read_trace(tmp_path / "missing")


@given(cut=st.integers(0, 5_000), flipped=st.integers(0, 5_000))
def test_a_damaged_trace_is_a_sum_or_refused(cut: int, flipped: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    for rank in range(8):
        data = bytearray(gzip.decompress((RING / f"custom_allreduce.{rank}.et.gz").read_bytes()))
        if rank == 3:
            data[-1 - flipped] ^= 0x55
            data = data[: len(data) - cut]
        (folder / f"a.{rank}.et").write_bytes(data)
    why = ""
    with contextlib.suppress(ConfigError):
        why = str(read_trace(folder).wrong())
    assert why in ("", "None")
