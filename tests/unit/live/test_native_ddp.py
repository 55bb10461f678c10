"""The model that DistributedDataParallel wraps leaves what the bare model leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch.distributed

from runtime.backends.base import micro_batches
from runtime.backends.torch import TorchModel
from runtime.core.vectors import FloatVector, aligned_vector
from runtime.live.tasks.collectives.native_ddp import NativeGroup, NativeModel
from runtime.live.transport.address import LOOPBACK, Address
from runtime.live.transport.auth import Identity
from runtime.live.transport.messages import Peer
from workloads.digits import Digits

KEPT: list[NativeModel] = []
"""To be freed later: when DistributedDataParallel is freed it waits for gloo's thread without letting Python go (torch
2.13), and just after a sum that thread waits for Python: forever. A worker frees none, it ends."""


@pytest.fixture
def digits(tmp_path: Path) -> Digits:
    task = Digits(model="mlp", data_dir=str(tmp_path))
    task.prepare()
    return task


@pytest.fixture
def native(digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NativeModel]:
    """Alone in its group."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "")  # so that what is set here is taken back
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "")
    group = NativeGroup(str(tmp_path), Identity("worker", 0), LOOPBACK, lambda: None)
    model = NativeModel(TorchModel(digits, seed=0, num_threads=1), group)
    group.form(0, [Peer(0, 0, Address(transport="tcp"))])
    yield model
    torch.distributed.destroy_process_group()
    KEPT.append(model)


def attached(model: TorchModel | NativeModel) -> FloatVector:
    """Its gradient vector, full of rubbish."""
    params, grad = aligned_vector(model.num_parameters), aligned_vector(model.num_parameters)
    params[:] = model.initial_parameters()
    grad[:] = 7.0
    model.attach(params, grad)
    return grad


def test_gradient_and_loss_are_those_of_the_bare_model(digits: Digits, native: NativeModel) -> None:
    bare = TorchModel(digits, seed=0, num_threads=1)
    indices = np.arange(17)
    wanted, found = attached(bare), attached(native)
    losses = [model.gradient(model.batch(indices), micro_batches(17, 3)) for model in (bare, native)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    native.attach(native_params := aligned_vector(native.num_parameters), other := aligned_vector(len(found)))
    native_params[:] = bare.initial_parameters()
    native.gradient(native.batch(indices), micro_batches(17, 3))
    np.testing.assert_allclose(other, wanted, rtol=1e-5, atol=1e-5)
    grad = attached(native)
    native.take_part()
    assert not grad.any(), "who only takes part leaves nothing"
