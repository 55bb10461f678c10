"""The strategy that drives parts: it passes events to them and turns their answers into commands."""

# mypy: disable-error-code="type-abstract"
# parts are looked up by interfaces, which are never instantiated

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, TypeVar, final

from reading.ranges import check_settings
from strategies.parts import hooks
from strategies.parts.composition.parts import Parts, check_fit
from strategies.parts.gates import Verdict
from strategies.parts.gates.base import Dividing, Pairing, Waiting
from strategies.parts.nodes import Controller
from strategies.parts.weights import STALENESS_RULES, check_lr_rule, lr_scale, mean_weight, staleness_factor
from strategies.protocol import (
    DATA_POLICIES,
    AnyCommand,
    AnyEvent,
    Apply,
    Arrived,
    Average,
    Command,
    Compute,
    Drop,
    Failed,
    Joined,
    Lost,
    Restored,
    Scored,
    Started,
    StepAlone,
    Stop,
    Strategy,
    split_evenly,
)

Made = TypeVar("Made")


class Composition(Strategy):
    """Abstract: a system is a final dataclass whose :meth:`compose` returns its parts.

    On every event: all observing parts see it; the gate answers; the schedule and the controller of periodic decisions
    follow; a part that settles may change the commands last. The parts determine what a system needs, where it can be
    used and what it refuses.
    """

    @abstractmethod
    def compose(self) -> Parts:
        """Build the parts from the fields; raises ``ValueError`` naming a field that is refused."""

    @final
    def make(self, kind: type[Made], **own: Any) -> Made:
        """One of this ``kind``, with those settings of the system that it has under the same names, and its ``own``."""
        names = signature(kind).parameters.keys() - own.keys()
        return kind(**{name: getattr(self, name) for name in names if name in vars(self)}, **own)

    @final
    def __post_init__(self) -> None:
        """Check the settings, build the parts, and refuse combinations that do not fit."""
        check_settings(self)
        self.parts = parts = self.compose()
        check_lr_rule(parts.lr_rule)
        if self.data not in DATA_POLICIES:
            raise ValueError(f"data={self.data}: must be one of {', '.join(DATA_POLICIES)}")
        check_fit(parts)
        self._check(check_settings)
        for meeting in parts.having(hooks.Meeting):
            meeting.meet(parts)
        if parts.decide_every_s is not None:
            self._validate("validate_period", parts.decide_every_s)
        self._declare(parts)
        self._wire(parts)

    def _declare(self, parts: Parts) -> None:
        """Set what a runtime must know before the job: needed commands, topologies, held-out samples."""
        everything = [part for _, part in parts.slots()]
        needs = frozenset[type[Command]]({Compute, Apply}).union(*(getattr(part, "needs", ()) for part in everything))
        self.needs = needs | {Drop} if parts.gate.drops else needs
        self.fitted = tuple(sorted({name for part in everything for name in getattr(part, "fitted", ())}))
        for name in ("measures", "watches_servers", "watches_use", "cuts", "rescales"):
            setattr(self, name, getattr(self, name) or any(getattr(part, name, False) for part in everything))
        for part in everything:
            self.start_cores = {**self.start_cores, **getattr(part, "start_cores", {})}
        self.attaches = getattr(parts.gate, "attaches", False)
        self.aggregators = getattr(parts.gate, "num_aggregators", 0)
        self.aggregators_at = getattr(parts.gate, "aggregators_at", "free")
        self.replicas = getattr(parts.gate, "num_replicas", 0)
        self.sums_meanwhile = getattr(parts.gate, "sums_meanwhile", False)
        self.outer = getattr(parts.gate, "outer", self.outer)
        if self.attaches or self.sums_meanwhile or StepAlone in self.needs:
            self.topologies = frozenset({"allreduce"})
        elif parts.gate.rounds and not self.watches_servers and not self.aggregators:
            self.topologies = frozenset({"ps", "allreduce"})
        if parts.screen is not None:
            self.validation_samples, self.rescales = parts.screen.validation_samples, parts.screen.rescale

    def _wire(self, parts: Parts) -> None:
        """Collect the parts by hook; actions and the load policy are called by the controller."""
        # actions before load policies, because a node that goes should not first get a tiny batch
        deciding = [*parts.actions.values(), *([parts.load] if isinstance(parts.load, hooks.Deciding) else [])]
        periodic = []
        if parts.decide_every_s is not None:
            periodic.append(Controller(parts.decide_every_s, parts.having(hooks.Learning), deciding))
        self._gate, self._load, self._screen = parts.gate, parts.load, parts.screen
        self._lr_rule = parts.lr_rule
        self._starting = [*parts.having(hooks.Starting), *periodic]
        self._observing: list[hooks.Observing] = [*parts.having(hooks.Observing), *periodic]
        self._counting = parts.having(hooks.Counting)
        self._following: list[hooks.Following] = [*parts.having(hooks.Following), *periodic]
        self._settling = parts.having(hooks.Settling)
        self._alone = not (self._observing or self._following or self._settling or parts.screen)
        others = [
            parts.schedule,
            *periodic,
            parts.load,
            *parts.actions.values(),
            *parts.detectors.values(),
            parts.screen,
        ]
        self._logging = [part for part in others if isinstance(part, hooks.Logging)]
        self._order: Callable[[int], Compute] = self._portion if isinstance(parts.gate, Dividing) else parts.load.order
        self._pair = parts.gate.pair if isinstance(parts.gate, Pairing) else None

    # ---- before the job ---------------------------------------------------------------------------------------------

    @final
    def validate(self, num_workers: int) -> None:
        self._validate("validate", num_workers)

    @final
    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        self._validate("validate_batch", num_workers, global_batch_samples)

    @final
    def validate_length(self, epochs: int | None) -> None:
        self._validate("validate_length", epochs)

    def _validate(self, name: str, *values: float | None) -> None:
        self._check(lambda part: hasattr(part, name) and getattr(part, name)(*values))

    def _check(self, check: Callable[[object], object]) -> None:
        """Check every part; an error has the name under which the user knows the part's setting."""
        for slot, part in self.parts.slots():
            try:
                check(part)
            except ValueError as error:
                raise ValueError(f"{slot}.{error}" if self.parts.named else str(error)) from None

    @final
    def waiting_groups(self) -> Sequence[Sequence[int]]:
        """The groups of the gate; empty if it does not know in advance which others a worker waits for."""
        gate = self.parts.gate
        return gate.waiting_groups() if isinstance(gate, Waiting) else ()

    # ---- events -----------------------------------------------------------------------------------------------------

    @final
    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Pass the event to every part in turn, and return the commands."""
        if self._alone and isinstance(event, Arrived):  # no other part observes: most decisions of BSP, ASP and SSP
            return self._to_commands(self._gate.arrived(event.grad))
        if isinstance(event, Started):
            self._global_batch = sum(event.batch_samples)
            for starting in self._starting:
                starting.start(event)
        for part in self._observing:
            part.observe_event(event)
        commands = self._answer(event)
        for following in self._following:
            for more in following.then(event):
                commands += self._to_commands(more) if isinstance(more, Verdict) else [more]
        for settling in self._settling:
            commands = settling.settle(event, commands, self._order)
        return commands

    def _answer(self, event: AnyEvent) -> list[AnyCommand]:
        """The gate's answer to the event, as commands."""
        match event:
            case Arrived(grad=grad):
                score = None if self._screen is None else self._screen.asks(grad, self._version)
                return self._to_commands(self._gate.arrived(grad)) if score is None else [score]
            case Scored() if self._screen is not None:
                return self._to_commands(*self._screen.judged(event))
            case Started():
                return self._begin(event.workers, version=0)
            case Restored():
                return self._begin(event.workers, event.version)
            case Lost():
                self._current -= set[int]() if event.restarting else {event.worker}
                return self._to_commands(self._gate.lost(event.worker, event.restarting))
            case Joined():
                self._current.add(event.worker)
                return self._to_commands(self._gate.joined(event.worker))
            case Failed(retryable=False):
                return [Stop(reason=f"worker {event.worker}: {event.reason}", ok=False)]
            case Failed():
                return [self._order(event.worker)]
            case _:
                return []

    def _begin(self, workers: tuple[int, ...], version: int) -> list[AnyCommand]:
        self._version, self._current, self._since = version, set(workers), 0
        if first := self._gate.begin(workers, version):
            self._load.resize(first if self._gate.rounds else tuple(sorted(workers)))
        return [self._order(worker) for worker in first]

    def _portion(self, worker: int) -> Compute:
        """The order cut down to the next part of the worker's batch, where the gate divides batches."""
        gate: Any = self._gate
        part, parts = gate.portion(worker)
        return Compute(worker=worker, num_samples=split_evenly(self._load.order(worker).num_samples, parts)[part])

    def _to_commands(self, verdict: Verdict, factor: float = 1.0, requeue: bool | None = None) -> list[AnyCommand]:
        """A verdict as commands; ``factor`` multiplies the weights, ``requeue`` None: the system's setting."""
        commands: list[AnyCommand] = []
        if verdict.step:
            commands.append(StepAlone(grads=tuple([grad.id for grad in verdict.step])))
        if verdict.average:
            commands.append(Average(workers=verdict.average))
        commands += verdict.push
        if verdict.fragment is not None:
            commands.append(verdict.fragment)
        if verdict.apply:
            self._update(verdict, factor, commands)
        if verdict.drop:
            again = self.parts.requeue if requeue is None else requeue
            commands.append(Drop(grads=tuple([grad.id for grad in verdict.drop]), requeue=again))
        if go := verdict.go:
            if not self._load.steady and (verdict.apply or verdict.opens):
                self._resize(verdict)
            commands.extend(map(self._order, go))
            if self._pair is not None:
                commands += [Average(workers=pair) for pair in map(self._pair, go) if pair]
        return commands

    def _update(self, verdict: Verdict, factor: float, commands: list[AnyCommand]) -> None:
        """One Apply of everything that holds samples; empty gradients count for the barrier but not for the mean."""
        used, samples, assigned = [], 0, 0
        for grad in verdict.apply:
            assigned += grad.assigned_samples
            if grad.samples:
                samples += grad.samples
                used.append(grad)
        if not used:
            return
        rule = self._lr_rule
        weight, scale = mean_weight(samples), 1.0 if verdict.outer else lr_scale(rule, assigned, self._global_batch)
        weights = (weight,) * len(used)
        if rule in STALENESS_RULES:
            ages = [self._version - grad.version for grad in used]
            weights = tuple([weight * staleness_factor(rule, age, self._version + 1) for age in ages])
        if factor != 1.0:
            weights = tuple([factor * one for one in weights])
        self._version += 1
        grads = tuple([grad.id for grad in used])
        commands.append(Apply(grads=grads, weights=weights, lr_scale=scale, children=verdict.children))
        for counting in self._counting:
            counting.applied(tuple(used))

    def _resize(self, verdict: Verdict) -> None:
        """Resize before every round; with other gates, after as many applied gradients as there are workers."""
        if self._gate.rounds:
            self._load.resize(verdict.go)
            return
        self._since += len(verdict.apply)
        if self._since >= len(self._current):
            self._since = 0
            self._load.resize(tuple(sorted(self._current)))

    # ---- the record -------------------------------------------------------------------------------------------------

    @final
    def log_state(self) -> dict[str, float | int | str]:
        """The state of the gate and of all other parts; a warning last."""
        state = self._gate.log_state()
        for part in self._logging:
            state = state | part.log_state()
        if "warning" in state:
            state["warning"] = state.pop("warning")
        return state
