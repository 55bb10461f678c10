"""A recorded job once more, in one process with plain numpy: what servers and scorer did together, done by hand.

The record says in which order everything happened; the pure coordinator tells who got which samples. The gradients, the
references and their products are computed on whole vectors, with none of the code that a run uses for them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from runtime.backends.base import micro_batches
from runtime.backends.torch import TorchModel
from runtime.core import inputs
from runtime.core.data.holdout import Holdout
from runtime.core.data.sampling import sample_indices
from runtime.core.job import ApplyOrder, ComputeOrder, Job
from runtime.core.scoring import Products
from runtime.training.optimizers import make_optimizer
from stragglab.vouching.replaying import build_strategy
from strategies.protocol import Timings
from tests.support.harness import Rig, make_job
from tests.support.runs import ROOT, RecordSink
from workloads.digits import Digits


class Retracing(Rig):
    """``received`` and ``computed`` hold <r, g>, |g|^2, |r|^2 of every score: recorded, and by hand."""

    def __init__(self, run: RecordSink, num_servers: int = 1) -> None:
        about, seed = run.meta["job"], run.meta["seed"]
        fields = {name: about[name] for name in Job.__struct_fields__ if name in about}
        changed = {"num_servers": num_servers, "eval_every_s": None, "checkpoint_every_s": None, "seed": seed}
        super().__init__(build_strategy(run.run_dir), make_job(**{**fields, **changed}))
        job = self.core.job
        self.model = TorchModel(Digits(data_dir=str(ROOT / "data")), seed, num_threads=1)
        self.params = self.model.initial_parameters()
        rule = {name: value for name, value in about["optimizer"].items() if name != "lr"}
        self.optimizer = make_optimizer(num_elements=len(self.params), **rule)
        self.holdout = Holdout(job.num_samples + job.validation_samples, job.validation_samples, seed)
        self.seed, self.vectors = seed, dict[int, Any]()
        self.versions, self.asked = [self.params.copy()], dict[int, int]()
        self.received: list[tuple[float, ...]] = []
        self.computed: list[tuple[float, ...]] = []
        for line in run.lines():
            if line["kind"] == "event" and self.core.status is None:
                self.again(line["event"])

    def again(self, event: dict[str, Any]) -> None:
        """All inputs from the beginning on; empty arrivals follow by themselves."""
        match event:
            case {"type": "Started"}:
                self.core.receive(0.0, inputs.JobStarted())
            case {"type": "Arrived", "grad": {"samples": 0}}:
                pass
            case {"type": "Arrived", "t": t, "grad": grad, "timings": timings, "loss": loss}:
                assert self.orders[grad["id"]].version == grad["version"]
                self.core.receive(
                    t, inputs.GradientArrived(grad["id"], grad["worker"], msgspec.convert(timings, Timings), loss)
                )
            case {"type": "Woke", "t": t, "tag": tag}:
                self.core.receive(t, inputs.TimerFired(f"strategy:{tag}"))
            case {"type": "Scored", "t": t, "grad": grad}:
                self.scored(t, grad["id"], event)

    def scored(self, t: float, grad_id: int, event: dict[str, Any]) -> None:
        """The reference was renewed when the last one was there, of which the record tells the version alone."""
        scoring = self.core.executor.scoring
        while grad_id not in self.asked:
            assert scoring.under_way is not None
            self.core.receive(t, inputs.ReferenceReady(scoring.under_way.number))
        reference = self.gradient(self.holdout.indices, self.versions[event["ref_version"]])
        held_out, samples = self.core.job.validation_samples, event["grad"]["samples"]
        g, r = self.vectors[grad_id].astype(float) / samples, reference.astype(float) / held_out
        self.computed.append((float(r @ g), float(g @ g), float(r @ r)))
        dot, sqr_g, sqr_r = event["dot"], event["sqr_grad"], event["sqr_ref"]
        self.received.append((dot, sqr_g, sqr_r))
        part = Products(dot=dot * samples * held_out, sqr_grad=sqr_g * samples**2, sqr_ref=sqr_r * held_out**2)
        self.core.receive(t, inputs.ScorePart(0, grad_id, self.asked.pop(grad_id), part))

    def gradient(self, indices: NDArray[np.int64], params: NDArray[np.float32]) -> NDArray[np.float32]:
        """Of the summed loss."""
        grad = np.zeros_like(params)
        self.model.attach(params.copy(), grad)
        self.model.gradient(self.model.batch(indices), micro_batches(len(indices), 1))
        return grad

    # ---- Port and Record ---------------------------------------------------------------------------------------------

    def compute(self, order: ComputeOrder) -> None:
        kept = np.setdiff1d(np.arange(self.core.job.num_samples + len(self.holdout.indices)), self.holdout.indices)
        indices = kept[sample_indices(order.ranges, self.core.cut, self.seed)]
        super().compute(order)
        self.vectors[order.grad_id] = self.gradient(indices, self.params)

    def apply(self, order: ApplyOrder) -> None:
        grads = [self.vectors[grad] for grad in order.grads]
        self.optimizer.step(self.params, grads, order.weights, order.lr, order.samples)
        self.versions.append(self.params.copy())

    def inner_products(self, grad_id: int, reference: int) -> None:
        self.asked[grad_id] = reference
