"""Traces as profilers leave them: other files next to them, folders by cycle, ranks in names only, odd bytes, cuts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.logs.intervals import inside, union
from analysis.logs.reading import read_log
from analysis.logs.step_log import LogError
from tests.support.log_samples import refusal

STEPS = 4


def events(factor: float = 1.0, first: int = 0) -> list[dict[str, Any]]:
    """A step takes a second; the kernel takes ``factor`` times 0.1 s, and its rank waits for the rest."""
    found = []
    for step in range(first, first + STEPS):
        start, work = 1e6 * step, 1e5 * factor
        found.append({"ph": "X", "name": f"ProfilerStep#{step}", "ts": start, "dur": 1e6})
        found.append({"ph": "X", "name": "gemm", "cat": "kernel", "ts": start, "dur": work})
        found.append({"ph": "X", "name": "ncclX", "cat": "kernel", "ts": start + work, "dur": 1e6 - work})
    return found


def traces(folder: Path, names: str, **more: Any) -> Path:
    """One trace per rank, of which rank 1 is slow; ``names`` has a place for the rank."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(3):
        content = {"traceEvents": events(1.5 if rank == 1 else 1.0, **more)}
        (folder / names.format(rank=rank)).write_text(json.dumps(content))
    return folder


NAMES = (
    *("rank{rank}.json", "trace-rank-{rank}.json", "worker{rank}_step_12.169412820.pt.trace.json"),
    *("step_12_worker_{rank}.json", "node3_{rank}_of_16.json", "7_{rank}.1764350000{rank}.json", "{rank}.json"),
)


@pytest.mark.parametrize("names", NAMES)
def test_the_rank_is_the_number_by_which_names_differ(names: str, tmp_path: Path) -> None:
    log = read_log(traces(tmp_path, names))
    assert log.ranks == ("0", "1", "2")
    assert log.own_s[0].tolist() == pytest.approx([0.1, 0.15, 0.1])


@pytest.mark.parametrize("content", ["[1, 2]", '"x"', '[{"a": 1}]', "[]", "null"])
def test_other_json_beside_traces_is_passed_over(content: str, tmp_path: Path) -> None:
    traces(tmp_path, "rank{rank}.json")
    (tmp_path / "config.json").write_text('{"layers": 8}')
    (tmp_path / "list.json").write_text(content)
    log = read_log(tmp_path)
    assert log.num_ranks == 3
    assert any("passed over" in remark and "config.json" in remark and "1 more" in remark for remark in log.remarks)
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "config.json").write_text('{"layers": 8}')
    with pytest.raises(LogError, match=r"config.json: is no Chrome trace"):
        read_log(tmp_path / "alone")


@pytest.mark.parametrize("counts_on", [True, False])
def test_a_folder_per_cycle_is_one_job(counts_on: bool, tmp_path: Path) -> None:
    """In natural order, whether every cycle counts its steps from 0 or continues."""
    for place, iteration in enumerate((2, 10, 20)):
        first = STEPS * place if counts_on else 0
        traces(tmp_path / f"iteration_{iteration}", "rank{rank}_trace.json", first=first)
    slow = tmp_path / "iteration_10" / "rank2_trace.json"
    slow.write_text(json.dumps({"traceEvents": events(3.0, STEPS if counts_on else 0)}))
    log = read_log(tmp_path)
    assert log.ranks == ("0", "1", "2")
    assert log.steps == tuple(range(3 * STEPS))
    assert log.own_s[:, 2].tolist() == pytest.approx([0.1] * STEPS + [0.3] * STEPS + [0.1] * STEPS)


@pytest.mark.filterwarnings("error")
def test_an_array_without_its_bracket_is_whole_and_a_cut_trace_is_refused(tmp_path: Path) -> None:
    """The format allows it, since a program may be ended. A step may have no length."""
    traces(tmp_path, "rank{rank}.json")
    for end in ("", ",", ",\n"):
        (tmp_path / "rank0.json").write_text(json.dumps(events())[:-1] + end)
        assert read_log(tmp_path).own_s[0].tolist() == pytest.approx([0.1, 0.15, 0.1])
    for content in (json.dumps(events())[:-9], json.dumps({"traceEvents": events()})[:-9]):
        (tmp_path / "rank0.json").write_text(content)
        with pytest.raises(LogError, match=r"rank0.json: is no trace \(.*\); copy or profile it again"):
            read_log(tmp_path / "rank0.json")
    (tmp_path / "rank0.json").write_text('{"traceEvents": [{"ph": "X", "name": "ProfilerStep#1", "ts": 1, "dur": 0}]}')
    assert read_log(tmp_path / "rank0.json").steps == (1,)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "ts of text": ({"ts": "soon"}, r"Expected float, got str - at \$.traceEvents\[3\].ts"),
    "ts of nothing": ({"ts": None}, r"Expected float, got null - at \$.traceEvents\[3\].ts"),
    "dur of a list": ({"dur": [1]}, r"Expected float, got array - at \$.traceEvents\[3\].dur"),
    "dur below zero": ({"dur": -1.0}, "must be microseconds; profile again"),
    "endless ts": ({"ts": 1e300}, "must be microseconds; profile again"),
    "huge step": ({"name": f"ProfilerStep#{'9' * 30}"}, "must be a whole number less than"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_value_of_the_wrong_type_is_named(kind: str, tmp_path: Path) -> None:
    change, says = WRONG[kind]
    found = events()
    found[3] |= change
    (tmp_path / "rank0.json").write_text(json.dumps({"traceEvents": found}))
    assert re.search(says, refusal(tmp_path / "rank0.json"))
    del found[3]["ts"]
    found[3] |= {"name": "ProfilerStep#1", "dur": 1.0}
    (tmp_path / "rank0.json").write_text(json.dumps(found))
    assert re.search("ProfilerStep#1 has ts .* must be microseconds", refusal(tmp_path / "rank0.json"))


def test_what_intervals_cover() -> None:
    covered = union(np.array([[5.0, 6.0], [0.0, 2.0], [1.0, 3.0], [3.0, 4.0], [5.5, 5.75]]))
    assert covered.tolist() == [[0.0, 4.0], [5.0, 6.0]]
    spans = np.array([[-1.0, 9.0], [1.0, 2.0], [3.5, 5.5], [4.0, 5.0], [7.0, 8.0], [-2.0, -1.0]])
    assert inside(covered, spans).tolist() == [5.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert inside(union(np.empty((0, 2))), spans).tolist() == [0.0] * 6
