"""Serial SGD: the job of a run (``workload=digits``) once more in one process, as a textbook writes it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from omegaconf import OmegaConf

from runtime.backends.torch import TorchModel
from runtime.core.job import Job
from stragglab.vouching.replaying import build_strategy
from tests.support.harness import HeapRun, make_job
from tests.support.runs import ROOT, Run
from workloads.digits import Digits


def heap_of(run: Run) -> HeapRun:
    """Its job by the pure coordinator on a heap, each worker a little slower than the one before: who applies what in a
    round does not depend on who is late."""
    about = run.meta["job"]
    fields = {name: about[name] for name in Job.__struct_fields__ if name in about}
    job = make_job(**{**fields, "max_time_s": 1e9, "eval_every_s": None, "checkpoint_every_s": None})
    return HeapRun(build_strategy(run.run_dir), job, [1.0 + worker / 10 for worker in range(job.num_workers)]).run()


def initial_model(run: Run) -> TorchModel:
    """What it begins with."""
    return TorchModel(Digits(data_dir=str(ROOT / "data")), run.meta["seed"], num_threads=1)


def serial_sgd(run: Run, batches: Iterable[NDArray[np.int64]]) -> NDArray[np.float32]:
    """The final parameters of torch's own optimizer, stepping on the mean loss of every batch (samples)."""
    import torch

    rule = OmegaConf.load(run.run_dir / ".hydra" / "config.yaml").workload.optimizer
    model = initial_model(run)
    optimizer = torch.optim.SGD(model.module.parameters(), lr=rule.lr, momentum=rule.momentum)
    for indices in batches:
        optimizer.zero_grad()
        (model.task.torch_loss(model.module, *model.batch(indices)) / len(indices)).backward()
        optimizer.step()
    return np.concatenate([one.detach().numpy().ravel() for one in model.module.parameters()])
