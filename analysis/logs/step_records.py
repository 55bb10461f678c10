"""Records of steps (JSON) with their parts, as diloco-measured writes them: computing, synchronisation, loading."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from analysis.logs.gathering import gather
from analysis.logs.json_values import count, seconds
from analysis.logs.limits import LEAST_PRINTED_S, MILLI
from analysis.logs.rows import Rows
from analysis.logs.step_log import LogError, StepLog

RECORDS, WHOLE, UNIT = "step_records", "wall_time_ms", "_ms"
ONE_CLOCK = (
    "the records are of one of {ranks} ranks: its parts of a step are known, other ranks are not; records of every "
    "rank would tell which one others wait for"
)
CALIBRATED = "{part} is the same in every step: it was measured once, before, and not in the steps"


def is_step_records(content: Any) -> bool:
    """Whether the content of a JSON file has records of steps in this form, of one rank without a name."""
    records = content.get(RECORDS) if isinstance(content, dict) else None
    if not isinstance(records, list) or not records or not isinstance(records[0], dict):
        return False
    return WHOLE in records[0] and "rank" not in records[0]


def read_step_records(source: str, content: Any) -> StepLog:
    """Whole steps, and as parts of them all times that a record has besides (names that end in ``_ms``).

    Raises:
        LogError: a record or a number is none.
    """
    rows, parts_s = Rows(source), defaultdict[str, list[float]](list)
    for place, record in enumerate(content[RECORDS]):
        where = f"{source}: record {place}"
        if not isinstance(record, dict) or WHOLE not in record:
            raise LogError(f"{where}: has no {WHOLE}; correct or remove it")
        names = [name for name in record if name.endswith(UNIT) and name != WHOLE]
        own_s = {name.removesuffix(UNIT): MILLI * seconds(name, record[name], where) for name in names}
        whole_s = max(MILLI * seconds(WHOLE, record[WHOLE], where), LEAST_PRINTED_S)
        rows.add("all", count(record.get("step", place), "step", where), whole_s, parts_s=own_s)
        for name, each_s in own_s.items():
            parts_s[name].append(each_s)
    ranks = content.get("world_size")
    remarks = [ONE_CLOCK.format(ranks=ranks if isinstance(ranks, int) else "all")]
    remarks += [CALIBRATED.format(part=name) for name, each in parts_s.items() if len(each) > 1 and len(set(each)) == 1]
    frame = rows.frame()
    return gather(source, frame, remarks=[*remarks, *rows.remarks])
