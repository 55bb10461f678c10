"""Models of clicks and language in TensorFlow: what PyTorch computes on the same vector and batch; masks of dropout."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.backends.base import micro_batches
from runtime.backends.torch import TorchModel
from tests.support.tensorflow_facts import needs_tensorflow
from tests.unit.backends.tensorflow_models import DROPPING, NUM, SEED, TASKS, WEIGHTED, Facts, begun
from tests.unit.backends.tensorflow_process import MODELS, Computed

LIVE = "tests/live/test_tensorflow_tasks.py::test_torch_and_tensorflow_give_the_same_loss_sequence"
pytestmark = [needs_tensorflow, pytest.mark.timeout(300), pytest.mark.long(like=LIVE)]
TOLERANCE = 1e-5
ON_GRADIENT = 1e-4
NAMES = sorted(TASKS)


@pytest.fixture(scope="module")
def facts(computed: Computed) -> Facts:
    assert computed.said == ""
    return computed.facts[MODELS]


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """Relative to the norm of the other."""
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_vector_means_the_same_model(facts: Facts, name: str) -> None:
    model = TorchModel(TASKS[name], SEED, 1)
    assert facts[f"{name}_initial"].tobytes() == model.initial_parameters().tobytes()
    assert facts[f"{name}_shapes"].tolist() == [str(tuple(parameter.shape)) for parameter in model.parameters]
    _, grad = begun(model)
    loss = model.gradient(model.batch(np.arange(NUM)), micro_batches(NUM, 1))
    assert facts[f"{name}_loss"] == pytest.approx(loss, rel=TOLERANCE)
    assert apart(facts[f"{name}_grad"], grad) <= ON_GRADIENT
    model.gradient(model.batch(np.arange(NUM)), WEIGHTED)
    for how in ("weighted", "coded"):
        assert facts[f"{name}_{how}_loss"] == pytest.approx(loss, rel=TOLERANCE), "the loss is not weighted"
        assert apart(facts[f"{name}_{how}_grad"], grad) <= ON_GRADIENT
    assert apart(facts[f"{name}_weighted_grad"], facts[f"{name}_grad"]) > 0.1
    sizes = np.cumsum([parameter.numel() for parameter in model.parameters])[:-1]
    assert all(np.abs(part).max() > 0 for part in np.split(facts[f"{name}_grad"], sizes)), "else both could be zero"
    assert facts[f"{name}_traces"] == facts[f"{name}_weighted_traces"] == 1, "one graph for every number of samples"
    metrics = model.evaluate()
    np.testing.assert_allclose(facts[f"{name}_metrics"], [metrics[one] for one in sorted(metrics)], rtol=TOLERANCE)


def test_memory_of_scores_is_bounded_in_evaluation(facts: Facts) -> None:
    assert facts["at_once"].tolist() == [16, 16, 8]


def test_masks_are_those_of_seed_and_batch(facts: Facts) -> None:
    mask, of_another_batch, again, in_another_process, of_another_seed = facts["masks"].tolist()
    assert set(mask) == {0.0, 2.0}
    assert mask == again == in_another_process
    assert mask not in (of_another_batch, of_another_seed)
    assert of_another_batch == facts["mask_after_evaluation"].tolist()
    for one in facts["masks"]:
        assert len({part.tobytes() for part in np.split(one, 3)}) == 3, "every layer and every call has its own"


@pytest.mark.parametrize("dropping", sorted(DROPPING))
def test_a_gradient_is_a_function_of_parameters_and_samples(facts: Facts, dropping: str) -> None:
    assert facts["kept"] == 1.0, "an evaluation drops nothing"
    assert facts[f"{dropping}_dropping_metrics"].tolist() == facts[f"{dropping}_metrics"].tolist()
    first, of_other_samples, again = facts[f"{dropping}_dropping"]
    assert first.tobytes() == again.tobytes() != of_other_samples.tobytes()
    assert apart(first, facts[f"{dropping}_grad"]) > 0.1, "nothing was dropped"
