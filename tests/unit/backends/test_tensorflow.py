"""TensorFlow on flat vectors: what PyTorch computes on the same vector."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from runtime.backends.layouts import canonical, native_axes, stored_shape
from runtime.backends.tensorflow import TensorflowBackend
from runtime.backends.torch import TorchBackend
from runtime.errors import ConfigError
from runtime.run.checks import job as checks
from runtime.run.checks.backends import is_written_in
from runtime.run.preflight import preflight
from tests.support.long_tests import long_after
from tests.support.runs import ROOT
from tests.support.tensorflow_facts import Facts, needs_tensorflow
from tests.unit.backends.tensorflow_process import BACKEND, Computed
from workloads.digits import Digits

KINDS = ("mlp", "cnn")
pytestmark = pytest.mark.timeout(400)
"""Whoever asks TensorFlow first waits for all that the tests of this folder ask it."""


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**40 + 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_task_draws_what_pytorch_draws_bit_for_bit(kind: str, seed: int) -> None:
    torch.manual_seed(seed)
    task = Digits(model=kind, hidden_units=37)
    wanted = np.concatenate([one.detach().numpy().ravel() for one in task.torch_module().parameters()])
    assert task.initial_parameters(seed).tobytes() == wanted.tobytes()
    assert task.initial_parameters(seed + 1).tobytes() != wanted.tobytes()


@pytest.mark.parametrize(
    ("name", "shape", "stored"),
    [
        ("kernel", (3, 5), (5, 3)),
        ("recurrent_kernel", (3, 12), (12, 3)),
        ("kernel", (2, 4, 3, 5), (5, 3, 2, 4)),
        ("depthwise_kernel", (2, 4, 3, 1), (1, 3, 2, 4)),
        ("bias", (5,), (5,)),
        ("embeddings", (9, 4), (9, 4)),
    ],
)
def test_layouts(name: str, shape: tuple[int, ...], stored: tuple[int, ...]) -> None:
    axes = native_axes(name, len(shape))
    assert stored_shape(shape, axes) == stored
    value = np.arange(np.prod(shape)).reshape(shape)
    flat = canonical(value, axes)
    back = flat.reshape(stored)
    assert (np.transpose(back, axes or None if axes else range(len(shape))) == value).all()
    assert (flat != value.ravel()).any() == bool(axes)


def test_a_package_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"^backend\.num_threads=0: must be at least 1$"):
        preflight(["workload=digits", "backend=tensorflow", "backend.num_threads=0"])
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="tensorflow is not installed; pip install 'stragglab"):
        preflight(["workload=digits", "backend=tensorflow"])


@dataclass
class OnlyTorch:
    """Its file promises more than its class holds."""

    def torch_module(self) -> Any: ...


def test_a_promise_that_the_task_does_not_keep_is_refused() -> None:
    assert not is_written_in(OnlyTorch(), TensorflowBackend())
    assert is_written_in(OnlyTorch(), TorchBackend())
    assert is_written_in(Digits(), TensorflowBackend())


@pytest.mark.parametrize("backend", long_after(["numpy", "torch"], 1))
def test_tensorflow_is_imported_only_where_it_is_chosen(backend: str, tmp_path: Path) -> None:
    workload = {"torch": "digits", "numpy": "ledger"}[backend]
    words = [f"workload={workload}", f"backend={backend}", "runtime=virtual", "draw=false", "view=none"]
    script = (
        "import atexit, os, runpy, sys\n"
        "names = ('tensorflow', 'keras', 'torch')\n"
        "atexit.register(lambda: print('loaded', *[name for name in names if name in sys.modules]))\n"
        "runpy.run_path('run.py', run_name='__main__')\n"
    )
    words = [
        sys.executable,
        "-c",
        script,
        *words,
        "workload.epochs=1",
        "straggler=none",
        f"hydra.run.dir={tmp_path}/run",
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    loaded = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("loaded")]
    assert ["torch"] * (backend == "torch") in loaded, done.stdout + done.stderr
    assert not any({"tensorflow", "keras"} & set(names) for names in loaded)


@pytest.fixture(scope="module")
def found(computed: Computed) -> tuple[Facts, str]:
    """TensorFlow's results, and what the process wrote on standard error."""
    assert computed.facts, computed.said
    return computed.facts[BACKEND], computed.said


@pytest.mark.long(like="test_a_task_draws_what_pytorch_draws_bit_for_bit")
@needs_tensorflow
def test_graphs_statistics_and_assessments(found: tuple[Facts, str]) -> None:
    """One graph serves every number of samples and reads the vector itself; statistics move and are no parameters.

    Who only scores has graphs of a step, of the metrics and of the statistics before the first score. An assessment
    depends on the parameters alone; the third is the negative control, with statistics as training has left them.
    """
    facts = found[0]
    assert facts["bn_traces"] == 1
    assert facts["bn_halved_loss"] != pytest.approx(float(facts["bn_loss"]), rel=1e-3)
    assert str(facts["bn_weights_refused"]).startswith("independent_samples: the model has batch normalisation")
    assert facts["only_scores_traces"].tolist() == [[0, 1, 1], [0, 1, 1]]
    assert facts["only_scores_metrics"].tolist() == [facts["bn_accuracy"], facts["bn_mean_loss"]]
    assert len(facts["bn_initial"]) == 64 * 6 + 6 + 2 * 6 + 60 + 10
    assert facts["bn_moved"] > 0
    assert facts["bn_initial"].tobytes() == facts["bn_again"].tobytes()
    before, after, unmeasured = facts["norms"]
    assert before.tolist() == after.tolist()
    assert unmeasured.tolist() != after.tolist()
    np.testing.assert_allclose(facts["measured"], facts["wanted_means"], rtol=1e-3, atol=1e-4)


@pytest.mark.long(like="test_a_task_draws_what_pytorch_draws_bit_for_bit")
@needs_tensorflow
def test_it_is_quiet_and_brings_nothing_along(found: tuple[Facts, str]) -> None:
    facts, said = found
    assert said == ""
    assert list(facts["modules"]) == []
    assert not facts["imported_for_initial_parameters"]
    assert str(facts["refusal"]).startswith("backend.num_threads=2: TensorFlow runs with 1 in this process already")
    assert facts["threads"] < 10
