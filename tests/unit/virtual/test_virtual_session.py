"""Whole jobs on the virtual clock: closed forms, accidents, and the same bytes every time."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import integrate, special, stats

from injectors.plan import Disturbance, build_plan
from injectors.schedule import Schedule
from runtime.api import INTERRUPTED_S, Outcome
from runtime.backends.numpy import NumpyBackend
from runtime.cluster.device import DeviceProfile
from runtime.core.executor import cut_for
from runtime.core.job import Job
from runtime.virtual import VirtualRuntime
from runtime.virtual.clock import MACHINE
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.model_state import ModelState, NoModelState, RealModelState
from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.protocol import Compute, NodeId, Started, Strategy
from tests.support.clusters import cluster_of
from tests.support.harness import Puppet, apply, make_job, make_run_spec
from tests.support.invariants import problems
from tests.support.labs import run_alone
from tests.support.virtual_runs import lose
from workloads.ledger import SampleLedger

IDEAL = Costs()
QUARTER = DeviceProfile(base_s=0.25)
"""Binary fractions add up without rounding, so that closed forms hold exactly."""

Line = dict[str, Any]
Strike = Callable[[VirtualSession], None]


class Tape:
    """A record in memory."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def event(self, t: float, event: Any, commands: Any, version: int, decide_us: float, state: Any) -> None:
        received = {
            "event": event,
            "commands": tuple(commands),
            "version": version,
            "decide_us": decide_us,
            "state": state,
        }
        self.lines.append({"seq": len(self.lines), "t": t, "kind": "event", **received})

    def note(self, t: float, kind: str, /, **fields: Any) -> None:
        self.lines.append({"seq": len(self.lines), "t": t, "kind": "note", "note": {"type": kind, **fields}})

    def plain(self) -> list[Line]:
        """As they are read back from a file."""
        lines: list[Line] = msgspec.json.decode(msgspec.json.encode(self.lines))
        return lines

    def received(self, kind: str) -> list[Line]:
        """Events of one type."""
        return [line["event"] for line in self.plain() if line["kind"] == "event" and line["event"]["type"] == kind]

    def noted(self, kind: str) -> list[tuple[float, Line]]:
        """Notes of one type with their times."""
        notes = [(line["t"], line["note"]) for line in self.plain() if line["kind"] == "note"]
        return [(t, note) for t, note in notes if note["type"] == kind]

    def update_times(self) -> list[float]:
        """When updates were decided."""
        lines = [line for line in self.lines if line["kind"] == "event"]
        return [after["t"] for before, after in pairwise(lines) if after["version"] > before["version"]]


def virtual_job(num_workers: int, samples: int, **changes: Any) -> Job:
    """One epoch, one sample per worker and update, nothing on the side."""
    size = {"num_workers": num_workers, "global_batch_samples": num_workers, "num_samples": samples}
    return make_job(**{**size, "epochs": 1, "max_time_s": 1e4, **changes})


def slow(**magnitudes: float) -> Schedule:
    """Workers (``w2=1.0``) that take so much longer by half, all the time."""
    about = {"start_s": 0.0, "end_s": 1e6, "kind": "slowdown"}
    windows = [Disturbance(target=f"worker:{w[1:]}", magnitude=size, **about) for w, size in magnitudes.items()]
    return Schedule(build_plan("test", 0, 1e6, windows))


def session(
    strategy: Strategy,
    job: Job,
    costs: Costs = IDEAL,
    *,
    device: Any = QUARTER,
    actuator: Schedule | None = None,
    model_state: ModelState | None = None,
    spec: dict[str, Any] | None = None,
    **about: Any,
) -> tuple[VirtualSession, Tape]:
    """``spec`` are fields of the ``RunSpec``, ``about`` is what else a session knows: ``hosts``, ``clock`` ..."""
    tape, model_state = Tape(), model_state or NoModelState(0, None)
    run_spec = make_run_spec(job, strategy, tape, **(spec or {}))
    return VirtualSession(run_spec, actuator or slow(), model_state, costs, device, **about), tape


def finish(run: VirtualSession, tape: Tape) -> Outcome:
    """To its end, which must be a good one."""
    outcome = run_alone(run)
    assert (outcome.status, problems(tape.plain())) == ("done", [])
    assert outcome.epochs_done == run.spec.job.epochs
    return outcome


@pytest.mark.parametrize("samples", [4, 64, 65, 67])
@pytest.mark.parametrize("slowdown", [0.0, 1.0, 2.5])
def test_bsp_takes_rounds_times_the_slowest(samples: int, slowdown: float) -> None:
    """Worker 0 is slow: it draws first, so it also has a part in a short last round."""
    outcome = finish(*session(BSP(), virtual_job(4, samples), actuator=slow(w0=slowdown)))
    assert outcome.t == math.ceil(samples / 4) * 0.25 * (1 + slowdown)
    assert outcome.samples_applied == samples


@pytest.mark.parametrize("samples", [1, 7, 64, 333])
@pytest.mark.parametrize("strategy", [ASP(data="dynamic"), SSP(bound=None, data="dynamic")], ids=["asp", "ssp"])
def test_asp_ends_within_one_iteration_of_samples_by_throughput(strategy: Strategy, samples: int) -> None:
    actuator = slow(w1=0.3, w2=1.7, w3=4.0)
    outcome = finish(*session(strategy, virtual_job(4, samples), actuator=actuator))
    times = [0.25 * (1 + slowdown) for slowdown in (0.0, 0.3, 1.7, 4.0)]
    low = samples / sum(1 / time for time in times)
    assert low <= outcome.t <= low + max(times)
    assert outcome.version == samples


SIGMA = 0.4
JITTER = Costs(jitter_sigma=SIGMA)
SECOND = DeviceProfile(base_s=1.0)
TIMES = stats.lognorm(SIGMA, scale=math.exp(-(SIGMA**2) / 2))
"""An iteration, seconds: mean one."""


def kth_s(k: int, n: int) -> float:
    """Expected k-th smallest of ``n`` iterations: its distribution function is the regularised incomplete beta's."""
    return float(integrate.quad(lambda frac: TIMES.ppf(special.betaincinv(k, n - k + 1, frac)), 0, 1)[0])


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values) / math.sqrt(len(values)))


def test_with_jitter_a_bsp_round_is_an_expected_maximum() -> None:
    """1,500 rounds of 4, seed 0; four standard errors, which are less than a worker more or less would make."""
    run, tape = session(BSP(), virtual_job(4, 4 * 1500), JITTER, device=SECOND)
    outcome = finish(run, tape)
    rounds = np.diff([0.0, *tape.update_times()])
    assert (len(rounds), rounds.sum()) == (1500, pytest.approx(outcome.t))
    mean, error = mean_and_error(rounds)
    assert mean == pytest.approx(kth_s(4, 4), abs=4 * error)
    assert kth_s(3, 3) + 4 * error < mean < kth_s(5, 5) - 4 * error


class Scored(NoModelState):
    """It is always half right."""

    def evaluate(self) -> dict[str, float]:
        return {"accuracy": 0.5}


def test_an_evaluation_takes_its_time_and_nobody_waits_for_it() -> None:
    """Eight iterations of 0.25 s; scores of the parameters at 0 and 1 s are there 0.375 s later, the last at once."""
    costs, job = Costs(evaluation_s=0.375), virtual_job(1, 8, eval_every_s=1.0)
    run, tape = session(BSP(), job, costs, model_state=Scored(0, None))
    assert finish(run, tape).t == 2.0
    assert [(event["asked_s"], event["t"]) for event in tape.received("Evaluated")] == [(0, 0.375), (1, 1.375), (2, 2)]


RESTART = Costs(pending_s=1.0, launch_s=0.5, control_s=0.01, checkpoint_base_s=0.05, disk_bytes_per_s=1600.0)
"""64 bytes of a server are written or read in 90 ms."""


def ledger(job: Job, strategy: Strategy) -> RealModelState:
    """The model whose parameters count the uses of every sample."""
    model = NumpyBackend().prepare(SampleLedger(num_samples=job.num_samples), job.seed)
    return RealModelState(model, {"name": "tally", "lr": 1.0}, cut_for(job, strategy.data), job.seed)


def accident(
    strategy: Strategy, costs: Costs, *strikes: tuple[float, Strike], **changes: Any
) -> tuple[VirtualSession, Tape, Outcome]:
    """A job of 32 samples and parameters on two servers, through 3 epochs, that is struck at these times."""
    job = virtual_job(4, 32, epochs=3, num_servers=2, checkpoint_every_s=1.0, **changes)
    run, tape = session(strategy, job, costs, model_state=ledger(job, strategy))
    for when_s, strike in strikes:
        run.clock.at(when_s, MACHINE, strike, run)
    return run, tape, finish(run, tape)


def unregister(*victims: str, restarting: bool = True) -> Strike:
    """All of these at once, in this order."""

    def now(run: VirtualSession) -> None:
        for victim in victims:
            lose(run.supervisor, NodeId.parse(victim), restarting=restarting or victim.startswith("server"))

    return now


def uses(run: VirtualSession) -> set[float]:
    assert isinstance(run.model_state, RealModelState)
    return set(run.model_state.params.tolist())


def test_a_lost_server_takes_everybody_back() -> None:
    """Checkpoints at 1.0, 2.0; lost at 2.3: 1.5 s until there are two servers, 90 ms of reading, 10 ms to say so."""
    run, tape, outcome = accident(BSP(), RESTART, (2.3, unregister("server:1")))
    [stored] = [(t, note) for t, note in tape.noted("Checkpointed") if 2.0 < t < 2.3]
    assert stored[1]["seconds"] == pytest.approx(0.01 + 0.09 + 0.01)
    [lost], [back] = tape.received("ServerLost"), tape.received("Restored")
    assert (lost["t"], lost["server"], lost["incarnation"]) == (2.3, 1, 0)
    assert back["t"] == pytest.approx(2.3 + 1.5 + 0.09 + 0.01)
    assert (back["version"], back["workers"]) == (stored[1]["version"], [0, 1, 2, 3])
    assert back["version"] > 0
    assert (uses(run), outcome.version) == ({3.0}, 24)


def test_an_iteration_that_may_end_early_needs_rounds() -> None:
    """Its gradient is computed when its end is known, on parameters that nobody may have changed meanwhile."""

    def each(event: Any) -> list[Any]:
        """As ASP, with a limit of time."""
        workers = event.workers if isinstance(event, Started) else [event.grad.worker]
        used = [] if isinstance(event, Started) else [apply(event.grad.id)]
        return [*used, *(Compute(worker=worker, num_samples=1, within_s=1.0) for worker in workers)]

    run, _ = session(Puppet(reply=each), virtual_job(2, 20), actuator=slow(w1=0.5))
    outcome = run_alone(run)
    assert outcome.status == "failed"
    assert outcome.reason.endswith("on the virtual clock iterations end early only in rounds of all workers")


def on_runtime(decisions: str, costs: str = "local_tcp", **changes: Any) -> tuple[Outcome, Tape]:
    """A job on ``runtime=virtual`` as ``run.py`` would run it."""
    tape = Tape()
    cluster = cluster_of(num_workers=4, device={"base_s": 0.02}, costs=costs)
    runtime = VirtualRuntime(cluster=cluster, decisions=decisions)  # type: ignore[arg-type]
    job = virtual_job(4, 400, eval_every_s=0.5, checkpoint_every_s=0.5)
    return runtime.run(make_run_spec(job, ASP(data="even"), tape, **changes), slow(w1=1.0)), tape


@pytest.mark.parametrize(("took_s", "scored"), [(INTERRUPTED_S, 2), (INTERRUPTED_S + 0.1, 1)])
def test_the_last_score_of_an_interrupted_job_is_left_out_if_it_would_take_long(took_s: float, scored: int) -> None:
    """The other one is that of the start."""
    model_state = Scored(0, None)
    run, tape = session(BSP(), virtual_job(2, 20), Costs(compute_base_s=0.25), model_state=model_state)
    model_state.evaluation_took_s = took_s
    run.clock.at(0.7, MACHINE, os.kill, os.getpid(), signal.SIGTERM)
    assert run_alone(run).status == "interrupted"
    assert len(tape.received("Evaluated")) == scored


@pytest.mark.parametrize(("took_s", "status"), [(INTERRUPTED_S, "done"), (INTERRUPTED_S + 0.1, "interrupted")])
def test_a_job_that_is_done_when_a_signal_comes_is_interrupted_only_if_its_last_score_is_left_out(
    took_s: float, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_state = Scored(0, None)
    run, tape = session(BSP(), virtual_job(2, 20), Costs(compute_base_s=0.25), model_state=model_state)
    model_state.evaluation_took_s = took_s
    finish = run.coordinator.finish

    def interrupted(t: float, status: Any, reason: str) -> None:
        finish(t, status, reason)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(run.coordinator, "finish", interrupted)
    outcome = run_alone(run)
    assert (outcome.status, outcome.samples_applied, run.spec.interrupted_by) == (status, 20, signal.SIGTERM)
    assert tape.plain()[-1]["note"]["status"] == status
    assert outcome.reason.endswith("not evaluated") is (status == "interrupted")


@pytest.mark.parametrize("steps", [50, 60, 100, 130, 150])
def test_an_interrupt_ends_it_in_good_order(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C: the signal is caught, the record has its last line, and the earlier handler is back in place."""
    monkeypatch.setattr("runtime.virtual.event_loop.loop.CHUNK", 4)  # the job is short
    monkeypatch.setattr("runtime.virtual.lab.LOOK_EVERY", steps)
    before, pressed = signal.getsignal(signal.SIGINT), []

    def press(t: float) -> None:
        if not pressed:  # a second one would end everything at once, these tests included
            pressed.append(t)
            os.kill(os.getpid(), signal.SIGINT)

    outcome, tape = on_runtime("fixed", tick=press)
    assert (outcome.status, outcome.reason) == ("interrupted", f"signal {signal.SIGINT}")
    assert 0 < outcome.samples_applied < 400
    assert signal.getsignal(signal.SIGINT) is before
    assert problems(tape.plain()) == []
    last, about = tape.plain()[-1], msgspec.to_builtins(outcome)
    assert (last["t"], last["note"]) == (about.pop("t"), {"type": "Finished", **about})


def test_measured_decisions_are_charged() -> None:
    (fixed, _), (measured, tape) = on_runtime("fixed", "ideal"), on_runtime("measured", "ideal")
    decided = [line["decide_us"] for line in tape.lines if line["kind"] == "event"]
    assert all(decide_us > 0 for decide_us in decided[:-1]), "the final score is not decided about"
    assert fixed.t < measured.t
    assert problems(tape.plain()) == []
