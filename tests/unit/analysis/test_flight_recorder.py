"""Dumps of PyTorch's flight recorder: read without executing anything, and the ranks that others wait for."""

from __future__ import annotations

import gzip
import pickle
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.logs.flight_recorder import dumps_of
from analysis.logs.reading import read_log
from analysis.logs.step_log import LogError
from analysis.measures.hanging import hanging
from analysis.reports.hanging import NOBODY, hanging_lines
from reading.pickles import read_pickle
from stragglab.commands import advise
from tests.support.mutating import mutated
from tests.support.runs import ROOT

PUBLISHED = ROOT / "tests" / "logs" / "public" / "flight_recorder.tar.xz"
CASES = ("gpu_error_1st", "gpu_error_2nd", "lock_gil_1st", "lock_gil_2nd")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dumps")
    with tarfile.open(PUBLISHED) as file:
        file.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian's Python 3.11.2 has none
        file.extractall(folder)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_the_ranks_that_were_harmed_are_named_and_how(case: str, published: Path) -> None:
    """``fault_injection.log`` is by those who injected the faults, of 180 s, into two of 16 ranks."""
    injected = re.findall(r"Rank (\d+), fault_type: (\w+)", (published / case / "fault_injection.log").read_text())
    dumps = dumps_of(published / case)
    assert sorted(dumps) == list(range(16))
    found = {str(one.rank): one.kind for one in hanging(dumps)}
    assert found == {rank: {"GPU_ERROR": "stuck", "LOCK_GIL": "late"}[fault] for rank, fault in injected}


def test_the_collective_is_the_one_of_the_extension_s_own_analysis(published: Path) -> None:
    """Its reference outputs: in these cases the missing ranks are 9 and 14, and 10 and 15, of the expert groups."""
    for case, ranks in (("lock_gil_1st", {9, 14}), ("lock_gil_2nd", {10, 15})):
        found = hanging(dumps_of(published / case))
        assert {one.rank for one in found} == ranks
        about = {(one.operation.name, one.group.what) for one in found}
        assert about == {("all_to_all", "EXPERT_MODEL_PARALLEL_GROUP")}
    (one,) = hanging(dumps_of(published / "lock_gil_1st" / "_dump_0"))
    assert (one.rank, one.kind) == (8, "absent"), "one dump says which other is needed"


def test_advice_on_a_folder_of_dumps_names_the_ranks(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert advise.main([str(published / "lock_gil_1st"), "-o", str(published / "out")]) == 1
    said = capsys.readouterr().out
    assert "16 dumps of the flight recorder; 14 ranks wait" in said
    assert "rank 9 has not joined all_to_all 45265 of EXPERT_MODEL_PARALLEL_GROUP" in said
    assert "look at its process" in said


def test_dumps_that_are_named_one_by_one_are_refused(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first one alone would name a rank as absent whose dump is the second."""
    paths = sorted((published / "lock_gil_1st").glob("_dump_*"))
    assert advise.main([*map(str, paths), "-o", str(published / "out")]) == 2
    assert "name the folder with all dumps" in capsys.readouterr().err


def test_damaged_dumps_are_read_or_refused_in_one_line(published: Path, tmp_path: Path) -> None:
    data = (published / "gpu_error_1st" / "_dump_13").read_bytes()
    read = 0
    refused = list[str]()
    for seed in range(60):
        (tmp_path / "dump_13").write_bytes(mutated(data, seed))
        try:
            dumps = dumps_of(tmp_path)
        except LogError as error:
            refused.append(str(error))
        else:
            assert hanging_lines(dumps, hanging(dumps))
            read += bool(dumps)
    assert read > 5
    assert len(refused) > 5
    assert all(said.isprintable() and len(said) < 1_000 for said in refused)


def entry(group: str, number: int, state: str = "scheduled", peer: str = "") -> dict[str, Any]:
    about = {"process_group": (group, "TP"), "pg_id": int(group), "state": state, "is_p2p": bool(peer)}
    name = f"nccl:{peer}" if peer else "nccl:all_reduce"
    return {**about, "profiling_name": name, "collective_seq_id": number, "p2p_seq_id": number if peer else 0}


def write(folder: Path, ranks: int, dumps: dict[int, list[dict[str, Any]]], **more: Any) -> dict[int, Any]:
    config = {"0": {"name": "0", "desc": "TP", "ranks": str(list(range(ranks)))}}
    for rank, entries in dumps.items():
        content = {"version": "2.9", "pg_config": config, "entries": entries, **more}
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(content, protocol=2))
    return dumps_of(folder)


def peer(rank: int, text: str) -> dict[int, list[dict[str, Any]]]:
    return {rank: [entry("0", 7, peer=text)]}


DONE = [entry("0", number, "completed") for number in (5, 6)]
AHEAD = [entry("0", 7, "completed"), entry("0", 8)]
STATUS = {"0": {"last_enqueued_collective": 7, "last_completed_collective": 6}}
HANGS: dict[str, tuple[int, dict[int, list[dict[str, Any]]], dict[int, str], list[set[int]]]] = {
    "one has not begun": (3, {0: [*DONE, entry("0", 7)], 1: DONE, 2: [*DONE, entry("0", 7)]}, {1: "late"}, [{0, 2}]),
    "a device does not complete": (3, {0: AHEAD, 1: [entry("0", 7)], 2: AHEAD}, {1: "stuck"}, [{0, 2}]),
    "all have begun": (
        *(3, {rank: [entry("0", 7)] for rank in range(3)}),
        *(dict.fromkeys(range(3), "together"), [set()] * 3),
    ),
    "who waits for a circle is not in it": (
        *(4, peer(0, "recv 0<-1") | peer(1, "recv 1<-0") | peer(2, "recv 2<-1") | peer(3, "recv 3<-2")),
        *({0: "circle", 1: "circle"}, [{1, 2, 3}, {0, 2, 3}]),
    ),
    "two for each other": (2, peer(0, "send 0->1") | peer(1, "send 1->0"), {0: "circle", 1: "circle"}, [{1}, {0}]),
    "who waits for one without a dump": (3, peer(0, "send 0->1") | peer(1, "recv 1<-2"), {2: "absent"}, [{0, 1}]),
}


@pytest.mark.parametrize("case", HANGS)
def test_a_hang_has_its_kind_and_those_who_wait(case: str, tmp_path: Path) -> None:
    """Of dumps that may be compressed."""
    ranks, entries, kinds, waiting = HANGS[case]
    write(tmp_path, ranks, entries)
    for path in list(tmp_path.iterdir()):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    found = hanging(dumps_of(tmp_path))
    assert {one.rank: one.kind for one in found} == kinds
    assert [one.waiting for one in found] == waiting


def test_counters_tell_of_a_rank_that_has_no_entries_and_ranks_that_wait_for_nothing_show_no_hang(
    tmp_path: Path,
) -> None:
    (one,) = hanging(write(tmp_path, 2, {0: [entry("0", 8)], 1: []}, pg_status=STATUS))
    assert (one.rank, one.kind, one.operation.number) == (1, "late", 8)
    dumps = write(tmp_path, 2, {rank: [entry("0", 7, "completed")] for rank in range(2)})
    assert NOBODY in hanging_lines(dumps, hanging(dumps))


def test_a_folder_that_cannot_be_listed_has_no_dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refused)
    assert dumps_of(tmp_path) == {}
    with pytest.raises(LogError, match=r"cannot be read \(permission denied\)"):
        read_log(tmp_path)


def nested(depth: int, copies: int) -> list[Any]:
    """A list of lists: each holds the next one so many times."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found] * copies
    return found


ENDLESS = nested(40, 10)
"""Its text is longer than any memory; its pickle is small."""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"version": "2.9", "entries": 5, "pg_config": {}}, "is no dump of the flight recorder"),
        ({"version": "2.9", "entries": [{"state": 1}], "pg_config": {}}, "is no dump of the flight recorder"),
        ({"version": "2", "entries": [{"record_id": float("inf")}], "pg_config": {}}, "is no dump of the flight"),
        ({"version": "2", "entries": [], "pg_config": {"0": {"ranks": ENDLESS}}}, "list instead of a text"),
        ({"version": "2.9", "entries": [print]}, r"is a pickle that names __builtin__\.print, which could"),
    ],
)
def test_what_is_no_dump_is_refused(content: Any, says: str, tmp_path: Path) -> None:
    (tmp_path / "dump_0").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(LogError, match=says):
        dumps_of(tmp_path)


PLAIN = {
    "a": [1, -2, 300, 70_000, 1 << 70, 1.5, None, True, False],
    "b": ("x" * 300, (), (1,), (1, 2), [{}]),
    3: "\xfc",
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_are_what_pickle_wrote(protocol: int) -> None:
    shared = ["same"]
    value = {**PLAIN, "twice": [shared, shared], "many": list(range(3000)), "keys": dict.fromkeys(range(2000))}
    assert read_pickle(pickle.dumps(value, protocol), arrays=False) == value


class Harmful:
    """Unpickling it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.write_text, (self.path, "executed")


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("kind", ["harmful", "function", "array", "path"])
def test_whatever_needs_a_class_is_refused_and_nothing_is_executed(kind: str, protocol: int, tmp_path: Path) -> None:
    array = np.arange(3, dtype=np.uint8)
    values = {"harmful": Harmful(tmp_path / "a"), "function": print, "array": array, "path": tmp_path}
    with pytest.raises(ValueError, match="refused"):
        read_pickle(pickle.dumps({"entries": [values[kind]]}, protocol), arrays=False)
    assert not (tmp_path / "a").exists()


def test_a_pickle_may_not_have_endless_keys_or_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    key: tuple[Any, ...] = ()
    for _ in range(3):
        key = (key, key)
    with pytest.raises(ValueError, match="a key that is a container"):
        read_pickle(pickle.dumps({key: 1}), arrays=False)
    monkeypatch.setattr("reading.pickles.MOST_INSTRUCTIONS", 1_000)
    with pytest.raises(ValueError, match="more than 1,000 instructions"):
        read_pickle(b"\x80\x02" + b"]" * 2_000 + b".", arrays=False)


@pytest.mark.parametrize(
    "data", [*(b"\x80\x02" + each for each in (b"", b".", b"a.", b"}(]]u.", b"]q", b")u.", b"](]]u.", b"}(]e."))]
)
def test_a_damaged_pickle_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"pickle|position|data"):
        read_pickle(data, arrays=False)
