"""Two jobs in one live lab: ``python -m tests.live.jobs_of_a_lab FIRST SECOND START_S SETTING...``.

The jobs write to these directories and have the same settings; the second starts ``START_S`` later.
"""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path

from injectors.schedule import Schedule
from runtime.api import RunSpec
from runtime.live.runtime import LiveRuntime
from runtime.record.recorder import Recorder
from runtime.run.checks.job import CheckedJob, check_job
from runtime.run.job import make_job, make_run_spec, open_record, prepare_data, write_head
from runtime.run.preflight import preflight
from runtime.run.prepare import prepare


def spec_of(checked: CheckedJob, run_dir: Path) -> RunSpec:
    """The job, with its record opened."""
    job = make_job(checked, prepare_data(checked.task, checked.config))
    run_dir.mkdir(parents=True)
    record = open_record(checked.config, run_dir)
    assert isinstance(record, Recorder)
    write_head(run_dir, checked, job)
    return make_run_spec(
        checked, job, record, run_dir, save_parameters_to=run_dir / "parameters.npy", tick=lambda t: None
    )


def main() -> None:
    """Exit code 0 if both are done."""
    directories, start_s, settings = [Path(name) for name in sys.argv[1:3]], float(sys.argv[3]), sys.argv[4:]
    ready = preflight([*settings, f"hydra.run.dir={shlex.quote(str(directories[0]))}"])
    assert ready.jobs is not None
    [(_, first)] = ready.jobs.pending
    prepare(ready.jobs.needs)
    checked = [first, check_job(first.written)]
    specs = [spec_of(one, run_dir) for one, run_dir in zip(checked, directories, strict=True)]
    runtime = first.runtime
    assert isinstance(runtime, LiveRuntime)
    lab = runtime.lab(specs[0])
    for number, (one, spec) in enumerate(zip(checked, specs, strict=True)):
        assert isinstance(one.runtime, LiveRuntime)
        lab.add(f"j{number}", partial(one.runtime.job, spec, Schedule(one.plan)), start_s * number)
    outcomes = lab.run()
    for one, spec in zip(checked, specs, strict=True):
        one.runtime.clear(spec)
        spec.record.close()
    for name, outcome in outcomes.items():
        print(name, outcome.status, outcome.reason)
    sys.exit(0 if [outcome.status for outcome in outcomes.values()] == ["done"] * 2 else 1)


if __name__ == "__main__":
    main()
