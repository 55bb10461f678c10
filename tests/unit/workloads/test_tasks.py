"""Tasks join a model and a data set: losses are sums, metrics do not depend on batches, bad pairs are refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from runtime.backends.base import micro_batches
from runtime.backends.torch import TorchModel
from runtime.core.vectors import aligned_vector
from tests.support.stand_ins import PHOTOS, ROWS, TEXT, StandIn
from workloads.clicks import Clicks
from workloads.datasets.criteo import Criteo
from workloads.datasets.imagenet import ImageNet
from workloads.datasets.planted import Planted
from workloads.datasets.planted_topics import PlantedTopics
from workloads.datasets.wikitext2 import WikiText2
from workloads.images import Images
from workloads.language import Language
from workloads.lda import LDA
from workloads.models.clicks import WideDeepSize, XDeepFMSize
from workloads.models.language import LSTMSize, TransformerSize
from workloads.tasks import DatasetTask

TASKS: dict[str, DatasetTask] = {
    "cnn": Images(dataset=PHOTOS, model="cnn"),
    "alexnet": Images(dataset=StandIn("photos", SimpleNamespace(**{**vars(PHOTOS.facts), "input_shape": (3, 32, 32)})),
                      model="alexnet", width=0.25),
    "lstm": Language(dataset=TEXT, size=LSTMSize(embedding=8, hidden=8)),
    "transformer": Language(dataset=TEXT, size=TransformerSize(width=8, heads=2, feedforward=8)),
    "wide_deep": Clicks(dataset=ROWS, size=WideDeepSize(embedding=3, hidden=(8, 4), crosses=((0, 2),))),
    "xdeepfm": Clicks(dataset=ROWS, size=XDeepFMSize(embedding=3, cin=(5, 4), hidden=(8,))),
}  # fmt: skip
"""Models without normalisation, whose gradient is a sum over samples."""


def begun(task: Any, **settings: int) -> TorchModel:
    model = TorchModel(task, 0, 1, **settings)
    model.attach(model.initial_parameters(), aligned_vector(model.num_parameters))
    return model


def gradient(model: TorchModel, accum: int) -> tuple[NDArray[np.float32], float]:
    params, grad = aligned_vector(model.num_parameters), aligned_vector(model.num_parameters)
    params[:] = model.initial_parameters()
    model.attach(params, grad)
    loss = model.gradient(model.batch(np.arange(12)), micro_batches(12, accum))
    return grad.copy(), loss


@pytest.mark.parametrize("name", TASKS)
def test_the_loss_is_a_sum_over_samples_and_so_is_its_gradient(name: str) -> None:
    model = TorchModel(TASKS[name], 0, 1)
    whole, loss = gradient(model, 1)
    halves, loss_of_halves = gradient(model, 2)
    assert loss_of_halves == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(halves, whole, rtol=1e-4, atol=1e-4 * np.abs(whole).max())
    half = model.task.torch_loss(model.module, *model.batch(np.arange(6)))
    assert float(half.detach()) < 0.9 * loss, "it would be about the same if it were a mean"


@pytest.mark.parametrize("name", TASKS)
def test_metrics_do_not_depend_on_the_batches(name: str) -> None:
    found = [begun(TASKS[name], eval_batch_samples=size).evaluate() for size in (3, 20)]
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    task, model = TASKS[name], begun(TASKS[name])
    inputs, targets = task.load().test
    with torch.no_grad():
        at_once = task.torch_metrics(
            model.module, torch.from_numpy(task.batch_inputs(inputs, None)), torch.from_numpy(targets)
        )
    assert found[0] == pytest.approx(at_once, rel=1e-5)


def test_perplexity_of_a_model_that_knows_nothing_is_the_size_of_the_vocabulary() -> None:
    found = TASKS["lstm"].metrics(np.full((7, 1), np.log(40)))
    assert found == pytest.approx({"perplexity": 40, "loss": np.log(40)})
    model = begun(TASKS["lstm"])
    assert model.evaluate()["perplexity"] == pytest.approx(40, rel=0.05)
    loss = model.task.torch_loss(model.module, *model.batch(np.arange(10)))
    assert float(loss.detach()) == pytest.approx(10 * np.log(40), rel=0.05), "the mean over a sequence's places"


def test_auc_is_the_chance_that_a_click_scores_higher() -> None:
    """Clicks score 3 and 1, the others 2 and 0: three of four pairs are in order. Accuracy counts hits."""
    hits = np.array([[1, 0.5], [0, 1.5], [1, 1.0], [1, 1.0]])
    assert TASKS["cnn"].metrics(hits) == {"accuracy": 0.75, "loss": 1.0}
    figures = np.array([[3, 0.1, 1], [2, 0.2, 0], [1, 0.3, 1], [0, 0.4, 0]])
    assert TASKS["xdeepfm"].metrics(figures) == pytest.approx({"auc": 0.75, "loss": 0.25})
    assert np.isnan(TASKS["xdeepfm"].metrics(figures[[0, 2]])["auc"])


def test_a_part_of_the_samples_is_spread_over_the_file_and_no_more_than_there_are() -> None:
    task = Images(dataset=PHOTOS, model="cnn", train_samples=7, test_samples=6)
    split = task.load()
    assert task.num_samples == task.prepare() == len(split.train[1]) == 7
    np.testing.assert_array_equal(split.train[0], PHOTOS.arrays(30, 0)[0][[0, 4, 8, 12, 16, 20, 24]])
    assert len(split.test[1]) == 6
    for asked in (None, 30, 31):
        task = Images(dataset=PHOTOS, model="cnn", train_samples=asked)
        assert task.num_samples == task.prepare() == len(task.load().train[1]) == 30
    unknown = StandIn("photos", PHOTOS.facts, num_samples=None)
    assert Images(dataset=unknown, model="cnn", train_samples=7).num_samples is None


TOPICS = PlantedTopics(words=60)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Images(dataset=PHOTOS, model="resnet19"), "model=resnet19: must be one of alexnet, cnn"),
        (lambda: Images(dataset=PHOTOS, model="vgg13"), "model=vgg13: images of 16 x 16 are too small"),
        (lambda: Images(dataset=PHOTOS, model="cnn", width=0.0), "width=0.0: must be more than 0"),
        (lambda: Images(dataset=PHOTOS, model="cnn", train_samples=0), "train_samples=0: must be at least 1"),
        (lambda: Images(dataset=TEXT, model="cnn"), "dataset=text: holds no images"),
        (lambda: Language(dataset=PHOTOS, size=LSTMSize()), "dataset=photos: holds no text"),
        (lambda: Language(dataset=TEXT, size=XDeepFMSize()), "size: must be an LSTMSize or a TransformerSize"),
        (lambda: Clicks(dataset=PHOTOS, size=XDeepFMSize()), "dataset=photos: has no categories"),
        (lambda: Clicks(dataset=ROWS, size=LSTMSize()), "size: must be a WideDeepSize or an XDeepFMSize"),
        (lambda: Clicks(dataset=ROWS, size=WideDeepSize(crosses=((0, 4),))), r"size: crosses=\[0, 4\] is no pair"),
        (lambda: TransformerSize(width=9, heads=3), "width=9: must be even and a multiple of heads"),
        (lambda: LSTMSize(layers=0), "layers=0: must be a whole number, at least 1"),
        (lambda: LSTMSize(dropout=1.5), "dropout=1.5: must be at least 0 and below 1"),
        (lambda: WideDeepSize(hidden=(8, -1)), "hidden=-1: must be a whole number, at least 1"),
        (lambda: XDeepFMSize(cin=()), r"cin=\[\]: must have at least one layer"),
        (lambda: WikiText2(sequence_length=0), "sequence_length=0: "),
        (lambda: WikiText2(vocabulary=33_277), "vocabulary=33277: "),
        (lambda: Criteo(buckets=1), "buckets=1: "),
        (lambda: ImageNet(image_size=4), "image_size=4: "),
        (lambda: ImageNet(num_classes=10), "num_classes=10: "),
        (lambda: LDA(dataset=TOPICS, topics=0), "topics=0: must be a whole number, at least 1"),
        (lambda: LDA(dataset=TOPICS, document_prior=0.0), "document_prior=0.0: must be above 0 and at most 100"),
        (lambda: LDA(dataset=TOPICS, stop_words=60), "stop_words=60: the text has 60 words"),
        (lambda: LDA(dataset=TOPICS, vocabulary=0), "vocabulary=0: must be at least 1, or null for all"),
        (lambda: LDA(dataset=TOPICS, tolerance=-1.0), "tolerance=-1.0: must be 0 or more"),
        (lambda: LDA(dataset=Planted()), "dataset=planted: holds no text"),
        *[
            (lambda cls=cls, field=field, wrong=wrong: cls(**{field: wrong}), f"{field}={wrong}: must be")
            for cls, fields in (
                (Planted, {"samples": 99, "num_fields": 1, "buckets": 1, "rank": 0, "spread": 0.0}),
                (PlantedTopics, {"samples": 9, "length": 0, "words": 1, "topics": 0, "topic_prior": 0.0}),
            )
            for field, wrong in fields.items()
        ],
    ],
)
def test_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        make()
    assert "\n" not in str(caught.value)


def test_memory_of_scores_is_bounded_in_evaluation() -> None:
    """However many sequences come at once, the vocabulary's scores are of a few."""
    task = TASKS["lstm"]
    model = TorchModel(task, 0, 1)
    seen: list[int] = []
    model.module.register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
    words = torch.zeros(40, 5, dtype=torch.int64)
    assert task.torch_per_sample_stats(model.module, words, words).shape == (40, 1)
    assert seen == [16, 16, 8]
