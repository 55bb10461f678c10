"""From a gate's verdicts to commands: the host of every strategy that is a gate with a load policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strategies.gates import Gate, Verdict
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Apply,
    Arrived,
    Compute,
    Drop,
    Failed,
    Joined,
    Lost,
    Restored,
    Started,
    Stop,
    Strategy,
)
from strategies.weights import STALENESS_RULES, lr_scale, mean_weight, staleness_factor


class GatedStrategy(Strategy):
    """Abstract: a subclass says which gate stands between the workers and the parameters, and who computes how much.

    The one intermediate class of the package. ``_batch[i]`` is the batch of worker i, ``lr_rule`` one of
    ``weights.LR_RULES``, ``requeue`` whether the samples of a dropped gradient are computed again.
    """

    lr_rule: str = "batch_linear"
    requeue: bool = True

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        """A fresh gate: all ``workers`` idle, ``version`` updates applied."""
        raise NotImplementedError

    def shares(self, started: Started) -> list[int]:
        """Samples per Compute of each worker; the default is the nominal even split of the global batch."""
        return list(started.batch_samples)

    def before_round(self, workers: tuple[int, ...]) -> None:
        """``workers`` are about to get their orders together: a load policy may change ``self._batch`` here.

        Called at the start, after a restore, and whenever an update lets workers go; so with the gate ``all`` exactly
        once per round and with all of its members, and sizes that are changed nowhere else change for everybody in the
        same round. Sizes are what is *assigned*: a worker that leaves within the round takes its part along (its
        samples go back to the queue), and the update of that round is the mean over what the others bring.
        """

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        """Ask the gate, answer with commands."""
        match event:
            case Arrived(grad=grad):
                return self._carry_out(self._gate.arrived(grad))
            case Started():
                self._global_batch = sum(event.batch_samples)
                self._batch = dict(zip(event.workers, self.shares(event), strict=True))
                return self._begin(event.workers, version=0)
            case Restored():
                return self._begin(event.workers, event.version)
            case Lost():
                return self._carry_out(self._gate.lost(event.worker, event.restarting))
            case Joined():
                return self._carry_out(self._gate.joined(event.worker))
            case Failed(retryable=False):
                return [Stop(reason=f"worker {event.worker}: {event.reason}", ok=False)]
            case Failed():
                return [self._compute(event.worker)]
            case _:
                return ()

    def log_state(self) -> dict[str, float | int | str]:
        """The gate's own state."""
        return self._gate.log_state()

    def _begin(self, workers: tuple[int, ...], version: int) -> list[AnyCommand]:
        self._version = version
        self._gate = self.make_gate(workers, version)
        if first := self._gate.begin():
            self.before_round(first)
        return [self._compute(worker) for worker in first]

    def _compute(self, worker: int) -> Compute:
        return Compute(worker=worker, num_samples=self._batch[worker])

    def _carry_out(self, verdict: Verdict) -> list[AnyCommand]:
        commands: list[AnyCommand] = list(self._update(verdict))
        if verdict.drop:
            commands.append(Drop(grads=tuple(grad.id for grad in verdict.drop), requeue=self.requeue))
        if verdict.go and (verdict.apply or verdict.opens):
            self.before_round(verdict.go)
        commands += [self._compute(worker) for worker in verdict.go]
        return commands

    def _update(self, verdict: Verdict) -> Iterator[AnyCommand]:
        """One Apply of everything that holds samples; empty gradients count for the barrier but not for the mean."""
        used = [grad for grad in verdict.apply if grad.samples]
        if used:
            weight = mean_weight(sum(grad.samples for grad in used))
            assigned = sum(grad.assigned_samples for grad in verdict.apply)
            scale = lr_scale(self.lr_rule, assigned, self._global_batch)
            weights = (weight,) * len(used)
            if self.lr_rule in STALENESS_RULES:
                ages = [self._version - grad.version for grad in used]
                weights = tuple([weight * staleness_factor(self.lr_rule, age) for age in ages])
            self._version += 1
            yield Apply(grads=tuple(grad.id for grad in used), weights=weights, lr_scale=scale)
