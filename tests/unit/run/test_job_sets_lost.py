"""Jobs of a set that survive so many losses and no more: each ends exactly when its plan says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from runtime.run.job import JobFailed
from runtime.run.jobs.replay import run_set
from tests.support.job_sets import checked_set, notes_of, row
from tests.unit.run.test_job_sets_preempted import plain

JOBS, ROUNDS, ROUND_S = 12, 40, 0.1
KILLS = (
    "straggler=kill",
    "straggler.mean_s=12",
    "straggler.duration_s=0.5",
    "straggler.targets=['worker:*','server:*']",
)


def kills_of(run_dir: Path, job: str) -> list[float]:
    """When the job's own plan kills somebody, in order."""
    plan = msgspec.json.decode((run_dir / "jobs" / job / "plan.json").read_bytes())
    return sorted(one["start_s"] for one in plan["disturbances"])


@pytest.mark.parametrize("survived", [0, 1])
def test_a_job_without_fail_over_ends_with_the_first_kill(tmp_path: Path, survived: int) -> None:
    """Jobs that share nothing take 4 s undisturbed: who is killed more often by then than it survives has failed."""
    rows = [row(f"job{number}", gpus=4, iterations=ROUNDS, model="") for number in range(JOBS)]
    words = (*plain(tmp_path, hosts=JOBS), *KILLS, "strategy=asp", f"max_losses={survived}", "checkpoint_every_s=null")
    with pytest.raises(JobFailed, match=rf"of {JOBS} jobs are not done: .*max_losses={survived} is used up"):
        run_set(checked_set(rows, *words), tmp_path / "run")
    ended = {note["job"]: note for note in notes_of(tmp_path / "run") if note["type"] == "Ended"}
    failed = 0
    for job, note in ended.items():
        kills = kills_of(tmp_path / "run", job)
        last_s = kills[survived] if len(kills) > survived else float("inf")
        if note["status"] == "failed":
            failed += 1
            assert note["t"] == pytest.approx(last_s)
            assert note["reason"].endswith(f"is lost (killed by the plan), and max_losses={survived} is used up")
        else:
            assert note["status"] == "done"
            assert note["t"] < last_s
            if not survived:
                assert note["t"] == pytest.approx(ROUNDS * ROUND_S)
    assert 0 < failed < JOBS, "both happen, or nothing was shown"
