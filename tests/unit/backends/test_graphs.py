"""Gradients that are launched at once: the same bits as one kernel after another, for batches that come often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from runtime.backends.base import MicroBatch, micro_batches
from runtime.backends.devices import buckets
from runtime.backends.devices.fake import FakeDevice
from runtime.backends.devices.graphs import FORMS, OFTEN, Graphs
from runtime.backends.torch import TorchModel
from runtime.core.job import Piece
from runtime.core.vectors import FloatVector, aligned_vector
from tests.support.stand_ins import PHOTOS, TEXT
from tests.unit.workloads.test_tasks import TASKS
from workloads.images import Images
from workloads.language import Language
from workloads.models.language import LSTMSize

NORMALISED = Images(dataset=PHOTOS, model="resnet20", width=0.25)
MODELS = {**TASKS, "batch normalisation": NORMALISED}
PLAIN = sorted(name for name in MODELS if not getattr(MODELS[name], "masks_of_device", ""))
SIZES = (8, 8, 6, 8, 6, 8, 6, 6, 8)
"""Samples of batches, one after another: the first form is recorded at once, the other when it comes often."""


def trained(model: TorchModel, parts: int) -> tuple[list[float], FloatVector, list[Any]]:
    """Losses, parameters and buffers of some steps, whose gradients go to two vectors of the host in turn."""
    params, grads = aligned_vector(model.num_parameters), [aligned_vector(model.num_parameters) for _ in range(2)]
    params[:] = model.initial_parameters()
    losses = []
    for step, size in enumerate(SIZES):
        batch = model.batch((np.arange(size) + 3 * step) % 16)
        model.attach(params, grads[step % 2])
        losses.append(model.gradient(batch, micro_batches(size, parts)))
        params -= np.float32(0.01) * grads[step % 2]
        grads[step % 2].fill(np.nan)
    return losses, params, [one.numpy() for one in model.module.buffers()]


def on_device(task: Any) -> TorchModel:
    return TorchModel(task, 3, 1, device="fake", graphs=True)


@pytest.mark.few(2)
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", PLAIN)
def test_bits_and_buffers_are_those_of_the_cpu(name: str, parts: int) -> None:
    task, model = MODELS[name], on_device(MODELS[name])
    losses, params, buffers = trained(TorchModel(task, 3, 1), parts)
    found = trained(model, parts)
    assert found[0] == losses
    np.testing.assert_array_equal(found[1], params)
    for one, same in zip(found[2], buffers, strict=True):
        np.testing.assert_array_equal(one, same)
    dropout = any(isinstance(one, nn.Dropout) and one.p > 0 for one in model.module.modules())
    assert (model.graphs is None) == dropout
    if model.graphs is not None:
        assert len(model.graphs.recorded) == 2


def test_what_warms_up_is_no_batch_of_batch_normalisation_and_masks_need_the_host() -> None:
    _, _, statistics = trained(TorchModel(NORMALISED, 3, 1), 1)
    _, _, found = trained(on_device(NORMALISED), 1)
    assert len(found) > 3
    for one, same in zip(found, statistics, strict=True):
        np.testing.assert_array_equal(one, same)
    task = Language(dataset=TEXT, size=LSTMSize(embedding=8, hidden=8, layers=1, dropout=0.5))
    assert on_device(task).graphs is None


def test_one_that_is_large_goes_as_a_whole_when_it_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies to the host are no part of a graph; a batch that has none has its gradient copied in parts as ever."""
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 1000)
    task, model = TASKS["cnn"], on_device(TASKS["cnn"])
    send, sent = model.staging.send, list[slice]()
    monkeypatch.setattr(model.staging, "send", lambda part: (sent.append(part), send(part)))
    losses, params, _ = trained(TorchModel(task, 3, 1), 1)
    found = trained(model, 1)
    assert found[0] == losses
    np.testing.assert_array_equal(found[1], params)
    wholes = [part == slice(None) for part in sent]
    assert sum(wholes) == len(SIZES) - 2, "all but the first two of the second form"
    assert len(wholes) > len(SIZES)


@pytest.mark.parametrize("missing", ["copy_", "replay"])
def test_a_replay_or_a_batch_that_is_missing_gives_wrong_numbers(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the fake device shows it if kernels read another batch, or were recorded and never run."""
    task, model = TASKS["cnn"], on_device(TASKS["cnn"])
    right = trained(TorchModel(task, 3, 1), 1)
    record = model.graphs._record

    def broken(*about: Any) -> Any:
        graph = record(*about)
        if missing == "replay":
            return graph._replace(replay=lambda: None)
        return graph._replace(batch=tuple(part.clone() for part in graph.batch))

    monkeypatch.setattr(model.graphs, "_record", broken)
    found = trained(model, 1)
    assert not np.array_equal(found[1], right[1])


def test_weighted_gradients_are_launched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeDevice, "record", None)
    pieces = (Piece(samples=3, coefficient=0.5), Piece(samples=5, coefficient=-2.0))
    model = on_device(TASKS["cnn"])
    model.attach(aligned_vector(model.num_parameters), aligned_vector(model.num_parameters))
    for batch in (MicroBatch(slice(0, 8), pieces=pieces), MicroBatch(slice(0, 8), 0.5)):
        model.gradient(model.batch(np.arange(8)), [batch])


def batch(samples: int) -> Any:
    return torch.zeros(samples, 2), torch.zeros(samples)


def test_forms_are_recorded_when_they_come_often_and_not_without_end() -> None:
    launched = Graphs(FakeDevice(), lambda batch, micro: [batch[0].sum()], [])
    one = micro_batches(1, 1)
    assert launched.launch(batch(1), one) is not None, "the first at once"
    for samples in range(2, FORMS + 3):
        found = [launched.launch(batch(samples), one) is not None for _ in range(OFTEN + 1)]
        often = samples <= FORMS
        assert found == [False] * (OFTEN - 1) + [often, often]
    assert len(launched.recorded) == FORMS
    assert launched.launch(batch(1), one) is not None


WAITING: list[Any] = [
    lambda device, host: float(torch.ones(1)),
    lambda device, host: torch.ones(3).nonzero(),
    lambda device, host: device.place(torch.ones(3)),
    lambda device, host: device.upload(host, device.vector(3)),
    lambda device, host: device.copies_wait_for_kernels(),
]


@pytest.mark.parametrize("waiting", WAITING)
def test_what_cannot_be_recorded_on_a_gpu_cannot_be_here(waiting: Any) -> None:
    device, host, launched = FakeDevice(), aligned_vector(3), list[bool]()
    device.pin(host)

    def kernels() -> None:
        if launched:  # the first time they warm up
            waiting(device, host)
        launched.append(True)

    device.vector(3)
    with pytest.raises(RuntimeError, match="operation not permitted when stream is capturing"):
        device.record(kernels)
    waiting(device, host)
