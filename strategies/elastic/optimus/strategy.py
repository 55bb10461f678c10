"""Optimus: asynchronous training that grows by the increment that saves most time per core, from a fitted speed.

Symbols: p servers, w workers, f(p, w) updates per second, Q the updates that are left, dp ``add_servers``, dw
``add_workers``.

1. f is measured for ``sample_s`` at a few sizes, or given (``profile``): first the job's own (p, w), then (p, w + dw),
   (p + dp, w), (p + dp, w + dw), (p + dp, w + 2 dw), (p + 2 dp, w + dw), until all coefficients of step 2 are known.
2. Speed (3.2; ``speed``): f = w / (a_0 + a_1 w / p + a_2 w + a_3 p), by non-negative least squares of w / f against the
   four terms. Each equation is divided by its measured w / f, so that relative errors count.
3. Progress (3.1; ``remaining``): Q from the job's samples; without their number from the loss after k updates, fitted
   by 1 / (b_0 k + b_1) + b_2, until ``flat_steps`` updates lower it by less than ``flat_loss``.
4. Marginal gain (4.1; ``planner``): (Q / f(p, w) - Q / f(p', w')) / cores, for (p', w') = (p + dp, w) and (p, w + dw),
   over the cores of the addition. The larger (ties: servers) is added while it is above zero and fits ``cores_total``,
   one addition every ``adjust_every_s``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from reading.ranges import NonNegativeFloat, PositiveFloat, PositiveInt
from strategies.elastic.optimus.planner import Increments, OptimusPlanner
from strategies.elastic.optimus.remaining import Remaining
from strategies.elastic.optimus.speed import Speedometer, read_profile
from strategies.parts.composition.composition import Composition
from strategies.parts.composition.parts import Parts
from strategies.parts.gates import EachGate
from strategies.parts.scaling.scaler import Scaler, ScalerSettings


@final
@dataclass(kw_only=True)
class Optimus(ScalerSettings, Composition):
    """Measures its updates per second at a few sizes, fits a model to them, and adds servers or workers one by one.

    Source: Peng et al., "Optimus: an efficient dynamic resource scheduler for deep learning clusters", EuroSys 2018,
    sections 3.1 (loss), 3.2 (speed) and 4.1 (marginal gain), as the baseline of DLRover (Wang et al.,
    arXiv:2304.01468, section 6.3): 2 servers or 4 workers at a time for Wide & Deep, one adjustment in three minutes.

    Training is ASP with dynamic shards, and a worker's batch keeps its initial size.

    Departures: a job is alone, so cores are the dominant resource and nothing is taken from it for others. Sizes are
    tried in the job itself unless a ``profile`` tells their speed (Optimus runs each for some steps before the job),
    and growth starts where trying ends. A size that the cluster denied, or a larger one, is not asked for again.

    Attributes:
        server_cores: of every server.
        worker_cores: of every worker.
        add_servers: servers added at a time (1; 2 for Wide & Deep in DLRover's comparison).
        add_workers: workers added at a time (1; 4 for Wide & Deep there).
        sample_s: seconds for which a size is measured (60 s).
        skip_s: seconds after a change that are not measured.
        adjust_every_s: seconds from one increment to the next (180 s).
        profile: known speeds as lists of servers, workers and updates per second.
        flat_steps: updates in which the loss of a converged job falls by less than ``flat_loss``; only if a job ends by
            time, so that its number of updates is not known.
        flat_loss: see there.
        seamless: workers train while new nodes start; False: all stop first, and restart (native TensorFlow).
    """

    server_cores: PositiveInt = 16
    worker_cores: PositiveInt = 3
    add_servers: PositiveInt = 1
    add_workers: PositiveInt = 1
    sample_s: PositiveFloat = 60.0
    skip_s: NonNegativeFloat = 0.0
    adjust_every_s: PositiveFloat = 180.0
    profile: tuple[tuple[int, int, float], ...] = ()
    flat_steps: PositiveInt = 1000
    flat_loss: PositiveFloat = 0.001
    seamless: bool = False

    def compose(self) -> Parts:
        by = self.make(Increments, servers=self.add_servers, workers=self.add_workers)
        speedometer, remaining = self.make(Speedometer), self.make(Remaining)
        profile = read_profile(self.profile)
        planner = self.make(OptimusPlanner, by=by, speedometer=speedometer, remaining=remaining, profile=profile)
        scaler = self.make(Scaler, planner=planner)
        return self.make(Parts, gate=EachGate(), actions={"optimus": scaler})
