"""TensorFlow on a device: what it asks for there, and that a model computes where it is placed, without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.backends.devices import found
from runtime.backends.tensorflow import TensorflowBackend
from runtime.backends.tensorflow_start import FIRST_GPU, use_gpu
from runtime.errors import ConfigError, is_device_full
from tests.support.runs import ROOT
from tests.support.tensorflow_facts import needs_tensorflow


def stand_in(gpus: list[str]) -> tuple[Any, list[Any]]:
    """Of TensorFlow's configuration, and what was asked of it."""
    asked: list[Any] = []
    experimental = SimpleNamespace(
        enable_op_determinism=lambda: asked.append("deterministic"),
        enable_tensor_float_32_execution=lambda on: asked.append(("tf32", on)),
        set_memory_growth=lambda gpu, on: asked.append((gpu, on)),
    )
    config = SimpleNamespace(
        list_physical_devices=lambda kind: gpus if kind == "GPU" else [], experimental=experimental
    )
    return SimpleNamespace(config=config), asked


def test_arithmetic_is_exact_and_memory_is_shared() -> None:
    tensorflow, asked = stand_in(["first", "second"])
    assert use_gpu(tensorflow) == FIRST_GPU
    assert asked == ["deterministic", ("tf32", False), ("first", True)]
    assert is_device_full(type("ResourceExhaustedError", (Exception,), {})("OOM when allocating tensor"))


def test_without_a_gpu_it_says_so() -> None:
    with pytest.raises(ConfigError, match=r"backend\.device=cuda: TensorFlow finds no GPU it can use"):
        use_gpu(stand_in([])[0])
    with pytest.raises(ValueError, match="device=fake: must be cpu or cuda; only PyTorch has a fake one"):
        TensorflowBackend(device="fake")
    assert TensorflowBackend(device="cuda").device == "cuda"


@needs_tensorflow
def test_the_build_says_for_what_it_was_made_without_being_imported() -> None:
    program = "from runtime.backends.devices.found import tensorflow_cuda; print(tensorflow_cuda()); import sys; "
    program += "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(found.tensorflow_cuda())


@needs_tensorflow
@pytest.mark.long(like="test_without_a_gpu_it_says_so")
@pytest.mark.parametrize(("device", "shown"), [("cuda", "GPU-a"), ("cpu", "-1")])
def test_tensorflow_is_shown_the_device_of_its_task_if_it_computes_there(device: str, shown: str) -> None:
    program = (
        "import os; from runtime.backends.tensorflow_start import import_tensorflow; "
        f"import_tensorflow({device!r}); print(os.environ['CUDA_VISIBLE_DEVICES'])"
    )
    words, visible = [sys.executable, "-c", program], {**os.environ, "CUDA_VISIBLE_DEVICES": "GPU-a"}
    done = subprocess.run(words, cwd=ROOT, env=visible, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == shown


PLACED = """
import sys, tempfile
import numpy as np
from runtime.backends import tensorflow_start
tensorflow_start.import_tensorflow()
import tensorflow as tf
two = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
from runtime.backends import tensorflow
from runtime.backends.base import micro_batches
from runtime.core.vectors import aligned_vector
from workloads.digits import Digits

task = Digits(data_dir=tempfile.mkdtemp(), model="cnn", hidden_units=8)
task.prepare()
found = []
for where in ("", "/CPU:1"):
    tensorflow.start_tensorflow = lambda num_threads, device: where
    model = tensorflow.TensorflowModel(task, 3, 1).trace()
    params, grads = aligned_vector(model.num_parameters), []
    params[:] = model.initial_parameters()
    for step in range(3):
        grad = aligned_vector(model.num_parameters)
        model.attach(params, grad)
        assert model.params.device.endswith("CPU:1") == bool(where)
        model.gradient(model.batch(np.arange(8 * step, 8 * step + 8)), micro_batches(8, 2))
        params -= np.float32(0.01) * grad
        grads.append(grad.copy())
        assert (model.stage_s > 0) == bool(where)
    model.attach(params, grad)
    found.append((grads, model.evaluate()))
(cpu, score), (placed, other) = found
for one, same in zip(cpu, placed):
    np.testing.assert_array_equal(one, same)
assert score == other
"""


@needs_tensorflow
@pytest.mark.long(like="test_arithmetic_is_exact_and_memory_is_shared")
def test_a_model_computes_where_it_is_placed() -> None:
    """On the second of two logical processors: the same bits, with parameters that change between iterations."""
    done = subprocess.run([sys.executable, "-c", PLACED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
