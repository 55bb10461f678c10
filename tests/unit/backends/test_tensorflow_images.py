"""Image models in TensorFlow: the same vector is the same model, layer by layer and as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from torch import nn

from runtime.backends.torch import TorchModel
from tests.support.tensorflow_facts import needs_tensorflow
from tests.unit.backends.tensorflow_images import Facts, facts_of, make_comparable, task_of
from tests.unit.backends.tensorflow_process import Computed
from workloads.models.images import CIFAR_PX, MODELS
from workloads.models.torch.images import MAKERS

pytestmark = [pytest.mark.timeout(400), needs_tensorflow]

DEEP = ("densenet121-32-0.125", "resnet56-32-0.125", "resnet101-96-0.06")
CASES = ("alexnet-32-0.125", "cnn-28-1.0")
MORE = (
    *(f"{name}-32-0.125" for name in ("googlenet", "mobilenet", "vgg13", "vgg16", "resnet20")),
    *("resnet34-96-0.125", "mobilenet-96-0.125", "vgg13-96-0.06", "alexnet-96-0.06", "googlenet-96-0.06"),
)
"""Made of the same layers."""
SOON, AGAIN = ("alexnet-32-0.125", "alexnet-32-0.1250"), ("googlenet-96-0.06", "googlenet-96-0.060")
METRICS = ("loss", "test_accuracy", "test_loss")
long_after = pytest.mark.long(
    like="tests/live/test_tensorflow_tasks.py::test_torch_and_tensorflow_give_the_same_loss_sequence"
)
Found = Callable[[str], Facts]


@pytest.fixture(scope="module")
def found(computed: Computed) -> Found:
    """TensorFlow's results for a case."""
    assert computed.said == ""
    return computed.facts.__getitem__


def compare(ours: Facts, wanted: Facts, names: Iterable[str]) -> None:
    assert len(ours["grad"]) == len(wanted["grad"])
    assert np.linalg.norm(ours["grad"] - wanted["grad"]) <= 1e-4 * np.linalg.norm(wanted["grad"])
    for name in names:
        np.testing.assert_allclose(ours[name], wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)


@long_after
@pytest.mark.parametrize("case", [*CASES, *MORE, *(pytest.param(case, marks=pytest.mark.slow) for case in DEEP)])
def test_a_model_is_the_same_in_both(case: str, found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    make_comparable(MAKERS, nn.ELU(), nn.AvgPool2d, monkeypatch)
    task = task_of(case)
    wanted = facts_of(TorchModel(task, 0, 1))
    assert len(wanted["grad"]) == task.num_parameters
    compare(found(case), wanted, METRICS)


def test_every_model_is_compared() -> None:
    compared = {(name, int(px) > CIFAR_PX) for name, px, _ in (case.split("-") for case in (*CASES, *MORE, *DEEP))}
    assert {name for name, _ in compared} == MODELS.keys()
    own_forms = {name for name, (small, large) in MODELS.items() if small is not large}
    assert own_forms - {name for name, large in compared if large} == {"densenet121", "vgg16"}, "like others of theirs"


@long_after
@pytest.mark.parametrize(("once", "again"), [SOON, AGAIN])
def test_a_model_that_is_made_again_in_a_process_computes_the_same_bits(found: Found, once: str, again: str) -> None:
    """GoogLeNet's did not while Keras counted on in the names of layers."""
    first, second = found(once), found(again)
    assert first["grad"].tobytes() == second["grad"].tobytes()
