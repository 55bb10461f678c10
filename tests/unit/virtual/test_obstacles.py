"""Why Python drives a job instead of the compiled loop: every reason is given where it holds, and in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from injectors.plan import Disturbance, Kind, build_plan
from injectors.schedule import Schedule
from runtime.core import inputs
from runtime.errors import ConfigError
from runtime.native import EVENTS, SWITCH, native
from runtime.record.recorder import Recorder
from runtime.run.timing import Forgetful
from runtime.virtual.clock import Clock
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.event_loop.exchange import keeps_of
from runtime.virtual.event_loop.obstacles import WITHOUT, lasting_obstacle, present_obstacle, refuse_misspelt
from runtime.virtual.tasks.model_state import NoModelState
from strategies.protocol import NodeId
from tests.contract.catalogue import hurried
from tests.support.cli import run_cli
from tests.support.harness import make_job, make_run_spec

pytestmark = pytest.mark.skipif(native(EVENTS) is None, reason="was not compiled here")
COSTS = Costs(compute_base_s=0.02, latency_s=1e-3)


def session_of(
    run_dir: Path,
    strategy: str = "bsp",
    *,
    costs: Costs = COSTS,
    kind: Kind | None = None,
    num_servers: int = 2,
    of_loader: bool = False,
    **more: Any,
) -> VirtualSession:
    run_dir.mkdir()
    job = make_job(num_servers=num_servers)
    spec = make_run_spec(job, hurried(strategy), Recorder(run_dir), run_dir)
    magnitude = 0.5 if kind == "cpu" else 1.0
    about: dict[str, Any] = {"start_s": 1.0, "end_s": 2.0, "target": "worker:0", "magnitude": magnitude}
    windows = [Disturbance(kind=kind, of_loader=of_loader, **about)] if kind else []
    plan = Schedule(build_plan("test", 0, 1000.0, windows))
    return VirtualSession(spec, plan, NoModelState(1000, None), costs, None, **more)


def test_a_job_without_one(tmp_path: Path) -> None:
    assert lasting_obstacle(session_of(tmp_path / "run")) is None
    assert lasting_obstacle(session_of(tmp_path / "delayed", kind="delay", num_servers=0)) is None
    assert lasting_obstacle(session_of(tmp_path / "paused", kind="pause")) is None


LASTING: dict[str, dict[str, Any]] = {
    "the strategy orders Partition": {"strategy": "coding_naive"},
    "the strategy orders Send": {"strategy": "mlfabric"},
    "the strategy orders Score": {"strategy": "zeno_pp"},
    "decisions are charged by their measured time": {"measures_decisions": True},
    "what nodes use is sampled": {"telemetry_every_s": 1.0},
    "workers wait for loaders": {"kind": "delay", "of_loader": True},
    "workers share limited links": {"costs": Costs(compute_base_s=0.02, link_bytes_per_s=1e6)},
    "a server's delay holds up one update": {"costs": Costs(compute_base_s=0.02, concurrent_delays=True)},
    "replicas may be lost": {"num_servers": 0, "kind": "kill"},
}


@pytest.mark.parametrize("reason", LASTING)
def test_lasting_ones(reason: str, tmp_path: Path) -> None:
    assert lasting_obstacle(session_of(tmp_path / "run", **LASTING[reason])) == reason


def test_those_of_other_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = session_of(tmp_path / "late", clock=Clock(offset_s=1.0))
    assert lasting_obstacle(late) == "the job begins later than its lab"
    session = session_of(tmp_path / "run")
    monkeypatch.setenv(WITHOUT, "event_loop")
    assert lasting_obstacle(session) == f"{WITHOUT} switches it off"
    refuse_misspelt()
    monkeypatch.setenv(WITHOUT, "event_lop")
    with pytest.raises(ConfigError, match=f"^{WITHOUT}=event_lop: must be event_loop, or not set$"):
        refuse_misspelt()
    monkeypatch.delenv(WITHOUT)
    monkeypatch.setenv(SWITCH, "0")
    assert lasting_obstacle(session) == "the loop is not compiled here"
    monkeypatch.delenv(SWITCH)
    session.model_state = SimpleNamespace()  # type: ignore[assignment]
    assert lasting_obstacle(session) == "gradients are computed"


PRESENT: dict[str, tuple[Callable[[VirtualSession], object], str]] = {
    "halted": (
        lambda session: setattr(session.coordinator.course, "halted", True),
        "the job is over, or goes back to a checkpoint",
    ),
    "lost": (lambda session: setattr(session.coordinator.members.members[1], "state", "away"), "a worker is away"),
    "reserved": (lambda session: session.coordinator.executor.reserved.update({0: None}), "a worker is away"),  # type: ignore[dict-item]
    "admitted": (lambda session: session.coordinator.members.admit(NodeId.worker(9)), "workers have joined or left"),
    "attached": (
        lambda session: session.coordinator.members.parents.update({1: 0}),
        "gradients are parts, are being scored, or are children's",
    ),
    "given cores": (lambda session: session.workers.cores.update({0: 1.0}), "nodes have been given cores"),
    "ordered": (lambda session: session.port.drop((3,)), "orders wait to be sent"),
    "departed": (
        lambda session: session.coordinator.shards.departed.add(1),
        "samples are kept for workers that have left",
    ),
    "told": (
        lambda session: session.inbox.waiting.append(
            (session.coordinator.receive, (inputs.TimerFired("runtime:limit"),))
        ),
        "the coordinator is about to receive something unknown",
    ),
}


@pytest.mark.parametrize("name", PRESENT)
def test_passing_ones(name: str, tmp_path: Path) -> None:
    change, reason = PRESENT[name]
    session = session_of(tmp_path / "run")
    workers = len(session.coordinator.members.members)
    for worker in range(workers):
        session.coordinator.members.begin(worker, 0)
    assert present_obstacle(session, workers, 2) is None
    assert present_obstacle(session, workers, 3) == "servers have joined or left"
    change(session)
    assert present_obstacle(session, workers, 2) == reason


def test_a_subclass_with_an_event_of_its_own_gets_everything_unless_it_says_otherwise() -> None:
    class Own(Forgetful):
        def event(self, *about: object) -> None: ...

    class Same(Forgetful): ...

    class Less(Own):
        keeps = "answers"

    assert [keeps_of(kind()) for kind in (Forgetful, Same, Own, Less)] == ["nothing", "nothing", "all", "answers"]


def test_the_record_says_what_drives_a_job(tmp_path: Path) -> None:
    about = (
        "runtime=virtual",
        "backend=none",
        "workload=ledger",
        "workload.epochs=1",
        "straggler=none",
        "draw=false",
        "view=none",
    )
    assert run_cli(*about, "runtime.telemetry_every_s=1", f"hydra.run.dir={tmp_path}/run").exit_code == 0
    assert json.loads((tmp_path / "run" / "meta.json").read_text())["engine"] == "python: what nodes use is sampled"
