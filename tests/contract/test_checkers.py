"""Negative controls: strategies with planted faults, each of which the contract suite's checkers must find."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from runtime.core.ledger import GradientLedger
from strategies.parts.composed import Composed
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import AllGate, BoundedGate, EachGate, Verdict
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Apply,
    Arrived,
    Compute,
    Drop,
    Grad,
    Measured,
    Ready,
    Scored,
    Strategy,
)
from strategies.star.noise import NoiseMeter
from tests.contract.catalogue import make, scenario
from tests.support.answers import Line
from tests.support.harness import HeapRun
from tests.support.laws import (
    Complaints,
    dead,
    different,
    played,
    unaveraged,
    unconserved,
    unlawful,
    unpicklable,
    unrepeatable,
)

SEEDS = range(3)


@dataclass(kw_only=True)
class Sound(Composition):
    """Nothing wrong with it: ASP. The planted faults are small changes of this."""

    def compose(self) -> Parts:
        return Parts(gate=EachGate())


class ThrowsDice(Sound):
    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands = [*super().handle(event)]
        return [
            msgspec.structs.replace(command, lr_scale=random.random()) if isinstance(command, Apply) else command
            for command in commands
        ]


class AppliesTwice(Sound):
    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands = super().handle(event)
        return [*commands[:1], *commands] if isinstance(event, Arrived) and event.grad.samples else commands


class LosesASample(Sound):
    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        commands = super().handle(event)
        if isinstance(event, Arrived) and event.grad.samples and event.grad.id % 7 == 0:
            return [Drop(grads=(event.grad.id,), requeue=False), *commands[1:]]
        return commands


class AveragesTheMeans(Sound):
    """Every worker's mean counts the same, whatever its batch."""

    def compose(self) -> Parts:
        return Parts(gate=AllGate())

    def _update(self, verdict: Verdict, factor: float, commands: list[AnyCommand]) -> None:
        used = [grad for grad in verdict.apply if grad.samples]
        if used:
            weights = tuple(1 / (len(used) * grad.samples) for grad in used)
            commands.append(Apply(grads=tuple(grad.id for grad in used), weights=weights))


class ForgetfulMin(BoundedGate):
    """A worker that left stays in the minimum forever."""

    def lost(self, worker: int, restarting: bool) -> Verdict:
        return super().lost(worker, True)


class ForgetsLostInItsMin(Sound):
    def compose(self) -> Parts:
        return Parts(gate=ForgetfulMin(bound=1))


class ForgetsWhenPickled(Sound):
    def compose(self) -> Parts:
        return Parts(gate=AllGate())

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if "_version" in state:
            state["_gate"] = AllGate()
            state["_gate"].begin(self._gate.roster.members, self._version)  # type: ignore[attr-defined]
        return state


def run_of(strategy: Strategy, mode: str, seed: int) -> tuple[HeapRun, Complaints]:
    run = scenario(strategy, 4, mode, seed)
    return run, played(run)


def found(cls: type[Strategy], mode: str) -> set[str]:
    """The checkers that complain about a strategy."""
    complaining = set()
    for seed in SEEDS:
        run, refused = run_of(cls(), mode, seed)
        again, _ = run_of(cls(), mode, seed)
        results = {
            "lawful": refused + unlawful(run),
            "alive": dead(run),
            "conserving": unconserved(run),
            "averaging": unaveraged(run),
            "deterministic": different(run, again),
            "replayable": unrepeatable(cls, run.lines),
            "picklable": unpicklable(cls, run.lines, every=7),
        }
        complaining |= {name for name, complaints in results.items() if complaints}
    return complaining


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert found(Sound, "departures") == set()


@pytest.mark.parametrize(
    ("cls", "mode", "checkers"),
    [
        (ThrowsDice, "calm", {"deterministic", "replayable", "picklable"}),
        (AppliesTwice, "calm", {"lawful"}),
        (LosesASample, "calm", {"conserving"}),
        (AveragesTheMeans, "calm", {"averaging"}),
        (ForgetsLostInItsMin, "departures", {"alive", "conserving"}),
        (ForgetsWhenPickled, "calm", {"picklable"}),
    ],
)
def test_a_planted_fault_is_found(cls: type[Strategy], mode: str, checkers: set[str]) -> None:
    assert found(cls, mode) >= checkers


class Blind(GradientLedger):
    """A checker that refuses nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.ever: dict[int, Grad] = {}

    def check_compute(self, command: Compute, alive: bool) -> None:
        self.starved.pop(command.worker, None)

    def arrived(self, grad: Grad) -> None:
        self.ever[grad.id] = grad

    def use(self, ids: tuple[int, ...], what: str) -> list[Grad]:
        return [self.ever[grad_id] for grad_id in ids]


def test_the_audit_finds_what_a_blind_ledger_lets_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.core.executor.GradientLedger", Blind)
    complaints: Complaints = []
    for seed in SEEDS:
        run = scenario(AppliesTwice(), 4, "calm", seed)
        with suppress(KeyError, RuntimeError):  # the data service does not bear it for long
            run.run()
        complaints += unlawful(run)
    assert any("that are not to be had" in text for text in complaints)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda lines: lines.insert(5, lines[2]), "t goes back"),
        (lambda lines: lines.pop(3), "updates applied"),
        (lambda lines: lines.insert(9, lines[8]), "arrived twice"),
        (lambda lines: lines.pop(0), "without a Compute"),
    ],
)
def test_the_audit_reads_the_record_itself(spoil: Any, complaint: str) -> None:
    run, _ = run_of(Sound(), "calm", 0)
    spoil(run.lines)
    assert any(complaint in text for text in unlawful(run))


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda lines, at: lines.pop(at - 1), "that nobody waits for"),
        (lambda lines, at: lines.insert(at, lines[at - 1]), "not to be had"),
        (lambda lines, at: lines.insert(at + 1, lines[at]), "that nobody waits for"),
        (lambda lines, at: lines.insert(at, of_the_future(lines[at])), "a reference of the future"),
    ],
)
def test_the_audit_reads_scores(spoil: Any, complaint: str) -> None:
    """One worker: every Score is followed by its Scored."""
    run = scenario(make("zeno_pp", warmup_updates=0), 1, "calm", 0).run()
    assert unlawful(run) == []
    spoil(run.lines, next(number for number, line in enumerate(run.lines) if isinstance(line.event, Scored)))
    assert any(complaint in text for text in unlawful(run))


@pytest.mark.parametrize(
    "spoil",
    [lambda lines, at: lines.insert(at, lines[at]), lambda lines, at: lines.insert(at, of_version_99(lines[at]))],
)
def test_the_audit_reads_measured_norms(spoil: Any) -> None:
    strategy = Composed(gate=AllGate(), detectors={"noise": NoiseMeter(every_updates=2)})
    run = scenario(strategy, 2, "calm", 0).run()
    assert unlawful(run) == []
    spoil(run.lines, next(number for number, line in enumerate(run.lines) if isinstance(line.event, Measured)))
    assert any("a norm that nobody asked for" in text for text in unlawful(run))


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda lines, at: lines.pop(at), "arrives although it was not sent"),
        (lambda lines, at: lines.insert(at, lines[at]), "is held again"),
    ],
)
def test_the_audit_reads_what_is_held(spoil: Any, complaint: str) -> None:
    """The first Ready of one worker, whose gradient is sent at once."""
    run = scenario(make("mlfabric", lr_rule="batch_linear"), 1, "calm", 0).run()
    assert unlawful(run) == []
    spoil(run.lines, next(number for number, line in enumerate(run.lines) if isinstance(line.event, Ready)))
    assert any(complaint in text for text in unlawful(run))


def of_version_99(line: Line) -> Line:
    return msgspec.structs.replace(line, event=msgspec.structs.replace(line.event, version=99))


def of_the_future(line: Line) -> Line:
    return msgspec.structs.replace(line, event=msgspec.structs.replace(line.event, ref_version=99))
