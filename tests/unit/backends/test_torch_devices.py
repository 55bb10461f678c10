"""Devices with memory of their own: every wait matters, and a model computes there what it computes on the CPU."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from runtime.backends.base import MicroBatch, batch_inputs_of, micro_batches
from runtime.backends.devices import buckets
from runtime.backends.devices.fake import FakeDevice, FakeTransfer
from runtime.backends.devices.host_masks import draw_on_host
from runtime.backends.devices.staging import Staging
from runtime.backends.numpy import NumpyBackend
from runtime.backends.torch import TorchBackend, TorchModel
from runtime.core.job import Piece
from runtime.core.vectors import FloatVector, aligned_vector
from runtime.errors import is_device_full
from tests.support.stand_ins import PHOTOS, ROWS, TEXT
from tests.unit.workloads.test_tasks import TASKS
from workloads.clicks import Clicks
from workloads.digits import Digits
from workloads.images import Images
from workloads.language import Language
from workloads.models.clicks import XDeepFMSize
from workloads.models.language import LSTMSize, TransformerSize

SIZE = 40


@pytest.fixture
def digits(tmp_path: Path) -> Digits:
    task = Digits(data_dir=str(tmp_path))
    task.prepare()
    return task


def iterations(staging: Staging) -> list[float]:
    """Three times: a kernel doubles the parameters; the host changes its vectors as soon as it may."""
    params, grad, found = aligned_vector(SIZE), aligned_vector(SIZE), []
    for number in range(1, 4):
        params[:] = number
        staging.bring(params, grad)
        staging.grad.copy_(2 * staging.params)
        staging.take()
        params[:] = -1
        found.append(float(grad.sum()))
    return found


WANTED = [2.0 * SIZE * number for number in (1, 2, 3)]


def test_the_way_to_the_device_and_back() -> None:
    device = FakeDevice()
    staging = Staging(device, SIZE)
    assert iterations(staging) == WANTED
    assert len(device.pinned) == 2, "each vector once"
    params, grad = aligned_vector(SIZE), aligned_vector(SIZE)
    staging.bring(params, grad)
    assert staging.take()[0] > 0
    assert staging.settle() == 0


def test_pages_are_locked_once_and_to_the_end_of_a_vector() -> None:
    """As by the driver, which locks pages, and refuses what is locked in part."""
    device, whole = FakeDevice(), aligned_vector(SIZE)
    device.pin(whole[: SIZE // 2])
    with pytest.raises(RuntimeError, match="not pinned"):
        device.upload(whole, device.vector(SIZE))
    for part in (whole, whole[SIZE // 2 :]):
        with pytest.raises(RuntimeError, match="CUDA error 712"):
            device.pin(part)


def test_a_device_that_is_full_says_so_as_cuda_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeDevice, "capacity_bytes", 4 * SIZE)
    device = FakeDevice()
    device.vector(SIZE)
    with pytest.raises(RuntimeError) as caught:
        device.vector(1)
    assert is_device_full(caught.value)
    assert is_device_full(torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 MiB"))
    handle = "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
    for said in ("CUDA error: out of memory", handle, "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"):
        assert is_device_full(RuntimeError(said))
    for error in (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), MemoryError("CUDA out of memory")):
        assert not is_device_full(error)


def trained(model: TorchModel, micro: list[MicroBatch]) -> tuple[list[float], dict[str, float], FloatVector]:
    """Losses, metrics and parameters of a few steps; the vectors of the data plane change between them."""
    params, grads = aligned_vector(model.num_parameters), [aligned_vector(model.num_parameters) for _ in range(2)]
    params[:] = model.initial_parameters()
    losses = []
    for step in range(4):
        batch = model.batch(np.arange(8 * step, 8 * step + 8) % 16)
        model.attach(params, grads[step % 2])
        losses.append(model.gradient(batch, micro))
        params -= np.float32(0.01) * grads[step % 2]
    model.attach(params, grads[0])
    metrics = model.evaluate()
    return losses, metrics, params


NORMALISED = Images(dataset=PHOTOS, model="resnet20", width=0.25)
DROPPING: dict[str, Any] = {
    "xdeepfm": Clicks(dataset=ROWS, size=XDeepFMSize(embedding=3, cin=(5, 4), hidden=(8,), dropout=0.5)),
    "lstm of one layer": Language(dataset=TEXT, size=LSTMSize(embedding=8, hidden=8, layers=1, dropout=0.5)),
    "lstm": Language(dataset=TEXT, size=LSTMSize(embedding=8, hidden=8, layers=2, dropout=0.5)),
    "transformer": Language(dataset=TEXT, size=TransformerSize(width=8, heads=2, feedforward=8, dropout=0.5)),
}
MODELS = {**TASKS, "batch normalisation": NORMALISED, **{f"{name}, dropout": task for name, task in DROPPING.items()}}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_device_computes_what_the_cpu_does(name: str) -> None:
    task, micro = MODELS[name], micro_batches(8, 2)
    if inside := getattr(task, "masks_of_device", ""):
        assert inside in ("nn.LSTM", "attention (nn.MultiheadAttention)")
        with pytest.raises(ValueError, match="draws dropout masks on the device itself"):
            TorchModel(task, 3, 1, device="fake")
        return
    device = TorchModel(task, 3, 1, device="fake")
    losses, metrics, params = trained(TorchModel(task, 3, 1), micro)
    found = trained(device, micro)
    assert found[:2] == (losses, metrics)
    np.testing.assert_array_equal(found[2], params)
    assert device.stage_s > 0


def sent_by(task: Any, micro: list[MicroBatch], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[tuple[int, int]]]:
    """What a model on the device computes that sends parts of a kilobyte, and the parts of the last gradient."""
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 1000)
    model, parts = TorchModel(task, 3, 1, device="fake"), []
    send = model.staging.send
    monkeypatch.setattr(model.staging, "send", lambda part: (parts.append((part.start, part.stop)), send(part)))
    found = trained(model, micro)
    assert len(parts) % 4 == 0, "four gradients"
    return found, parts[-len(parts) // 4 :]


@pytest.mark.few(3)
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", sorted(name for name in MODELS if not getattr(MODELS[name], "masks_of_device", "")))
def test_a_gradient_that_is_copied_while_it_is_computed_is_the_same(
    name: str, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, micro = MODELS[name], micro_batches(8, parts)
    losses, metrics, params = trained(TorchModel(task, 3, 1), micro)
    found, sent = sent_by(task, micro, monkeypatch)
    assert found[:2] == (losses, metrics)
    np.testing.assert_array_equal(found[2], params)
    starts, stops = zip(*sorted(sent), strict=True)
    assert (starts[0], stops[-1], starts[1:]) == (0, len(params), stops[:-1]), "each float once"


def test_weights_and_coefficients_of_gradients_in_parts(digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    micro = [MicroBatch(slice(0, 4), 0.5), MicroBatch(slice(4, 8), -2.0)]
    pieces = (Piece(samples=3, coefficient=0.5), Piece(samples=5, coefficient=-2.0))
    for batches in (micro, micro[:1], [MicroBatch(slice(0, 8), pieces=pieces)]):
        losses, _, params = trained(TorchModel(digits, 3, 1), batches)
        found, sent = sent_by(digits, batches, monkeypatch)
        assert found[0] == losses
        np.testing.assert_array_equal(found[2], params)
        assert len(sent) > 1
        assert sent == sorted(sent, reverse=True), "the last first, as the backward pass comes to them"
        monkeypatch.undo()


@pytest.mark.parametrize("missing", ["copies_wait_for_kernels", "kernels_wait_for", "finish"])
def test_a_wait_that_is_missing_between_parts_gives_wrong_numbers(
    missing: str, digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    micro = micro_batches(8, 1)
    _, _, params = trained(TorchModel(digits, 3, 1), micro)
    owner = FakeTransfer if missing == "finish" else FakeDevice
    monkeypatch.setattr(owner, missing, lambda *_: 0.0)
    found, _ = sent_by(digits, micro, monkeypatch)
    assert not np.array_equal(found[2], params)


def test_parts_are_large_enough_and_small_models_have_one() -> None:
    assert buckets.buckets_of([100, 300, 50, 60, 10], 400) == [[2, 3, 4], [1], [0]]
    assert buckets.buckets_of([100, 300], 1600) == [[0, 1]]
    assert not TorchModel(TASKS["cnn"], 3, 1, device="fake").buckets


def test_servers_draw_initial_parameters_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeDevice, "__init__", None)
    drawn = TorchBackend(device="fake").initial_parameters(TASKS["cnn"], 5)
    np.testing.assert_array_equal(drawn, TorchModel(TASKS["cnn"], 5, 1).initial_parameters())


def test_only_pytorch_has_devices() -> None:
    for make, said in (
        (lambda: TorchBackend(exact=False), "^exact=false: changes nothing on device=cpu"),
        (lambda: TorchBackend(graphs=True), "^graphs=true: device=cpu launches no kernels; needs device=cuda"),
        (lambda: TorchBackend(device="tpu"), "device=tpu: must be one of cpu, cuda, fake"),
        (lambda: NumpyBackend(device="cuda"), "device=cuda: only PyTorch and TensorFlow compute on devices"),
    ):
        with pytest.raises(ValueError, match=said):
            make()


@pytest.mark.parametrize("shape", [(7, 5, 3), (300, 64)])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("turned", [False, True])
def test_masks_drawn_on_the_host_are_torch_s_own(turned: bool, p: float, shape: tuple[int, ...]) -> None:
    """In whatever order the elements are stored: torch draws in that order."""
    layer, inputs, placed = nn.Dropout(p), torch.randn(shape), list[Any]()
    inputs = inputs.transpose(0, 1) if turned else inputs
    outcomes = []
    for _ in range(2):
        torch.manual_seed(9)
        outcomes.append(layer(inputs))
        draw_on_host(layer, lambda mask: placed.append(mask) or mask)  # type: ignore[func-returns-value]
    assert torch.equal(*outcomes)
    assert len(placed) == (0 < p < 1), "by the device, which need not wait for its kernels"
    layer.eval()
    assert layer(inputs) is inputs


def test_masks_that_only_a_device_could_draw_are_refused() -> None:
    for layer, refused in (
        (nn.LSTM(2, 2, 2, dropout=0.5), True),
        (nn.LSTM(2, 2, 2), False),
        (nn.MultiheadAttention(2, 1, dropout=0.5), True),
        (nn.TransformerEncoderLayer(2, 1, 2, 0.0), False),
        (nn.Dropout2d(0.5), True),
    ):
        said = r"backend\.device: 1 \(.*\) draws dropout masks on the device"
        with pytest.raises(ValueError, match=said) if refused else nullcontext():
            draw_on_host(nn.Sequential(nn.Linear(2, 2), layer), torch.clone)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", sorted(TASKS))
def test_a_model_makes_its_tensors_where_its_inputs_are(name: str) -> None:
    """On torch's device ``meta``, which refuses to mix its tensors with others as a GPU does."""
    task: Any = TASKS[name]
    inputs, targets = (part[:8] for part in task.load().train)
    seen = torch.from_numpy(batch_inputs_of(task)(inputs, None)).to("meta")
    targets = torch.from_numpy(targets).to("meta")
    module = task.torch_module().to("meta")
    loss = task.torch_loss(module, seen, targets)
    grads = torch.autograd.grad(loss, list(module.parameters()))
    assert {one.device.type for one in (loss, *grads, task.torch_per_sample_stats(module, seen, targets))} == {"meta"}
