"""The papers' models: parameters against the literature's figures, shapes, and that a step of training helps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.nn.utils import vector_to_parameters

from workloads.models import densenet, googlenet, mobilenet, resnet
from workloads.models.clicks import Fields, WideDeepSize, XDeepFMSize
from workloads.models.images import MODELS, image_model
from workloads.models.initial import constant, draw, linear, normal
from workloads.models.language import LSTMSize, TransformerSize
from workloads.models.layers import Concat, Conv, Layers, MaxPool, Shape, Skip, Sum, count, initializers, shape_after
from workloads.models.torch.clicks import WideDeep, XDeepFM
from workloads.models.torch.images import build
from workloads.models.torch.language import LSTM, Transformer

SMALL: Shape = (3, 32, 32)
LARGE: Shape = (3, 224, 224)
FIELDS = Fields(num_dense=3, cardinalities=(50, 20, 30, 100))
WORDS = 40
TINY = 0.125
"""Width factor that keeps tests light."""


def size_of(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The tests are small and the machine may be busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


TORCHVISION = {
    "alexnet": 61_100_840,
    "densenet121": 7_978_856,
    "resnet34": 21_797_672,
    "resnet101": 44_549_160,
    "vgg13": 133_053_736,
    "vgg16": 138_365_992,
}
"""``num_params`` of the weights that torchvision publishes (its documentation, table of classification weights; VGG
with batch normalisation), 1,000 classes."""


@pytest.mark.parametrize("name", TORCHVISION)
def test_for_imagenet_parameters_are_those_that_torchvision_publishes(name: str) -> None:
    assert count(image_model(name, LARGE, 1000), LARGE) == TORCHVISION[name]


def test_googlenet_has_torchvision_s_parameters_with_torchvision_s_kernels() -> None:
    """6,624,904 (its documentation), where a 3x3 kernel stands for the paper's 5x5: nine modules differ by 16 weights a
    pair of channels. Caffe's bvlc_googlenet, with the paper's kernels, has 6,998,552: 7,280 biases where ours has
    scales and shifts."""
    assert count(googlenet.imagenet(1000, wide_kernel=3), LARGE) == 6_624_904
    pairs = sum(module.five_reduce * module.five for stage in googlenet.STAGES for module in stage)
    ours = count(googlenet.imagenet(1000), LARGE)
    assert ours == 6_624_904 + 16 * pairs == 6_998_552 + 7280


def test_resnets_for_cifar_have_the_parameters_of_the_paper_s_table_6() -> None:
    """MobileNet has the 4.2 million of Howard et al., table 8; half as wide 1.3 million (table 6)."""
    for depth, millions in ((20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)):
        found = count(resnet.cifar(depth, 10), SMALL) / 1e6
        assert found == pytest.approx(millions, abs=0.05 if depth == 110 else 0.005)
    assert count(mobilenet.layers(1000), LARGE) == 4_231_976
    assert round(count(mobilenet.layers(1000, width=0.5), LARGE) / 1e6, 1) == 1.3


CIFAR = {
    "alexnet": 2_472_266,  # one linear layer on 256 features; its convolutions are the large one's: 2,469,696
    "densenet121": 6_956_298,  # the large one less 1,014,750 of the classifier and 7,808 of the stem (7x7 and its norm)
    "googlenet": 5_871_914,  # less 1,014,750 of the classifier and 119,168 of the stem (three convolutions become one)
    "mobilenet": 3_217_226,  # less 1,014,750 of the classifier
    "resnet20": 269_722,
    "resnet56": 853_018,
    "vgg13": 9_416_010,  # convolutions and norms, and 5,130 of the only linear layer
    "vgg16": 14_728_266,
}


@pytest.mark.parametrize("name", CIFAR)
def test_for_cifar_only_stem_and_classifier_differ(name: str) -> None:
    """In torch there are as many."""
    layers = image_model(name, SMALL, 10)
    with torch.device("meta"):  # without memory
        assert count(layers, SMALL) == size_of(build(layers, SMALL)) == CIFAR[name]


@pytest.mark.long(like="test_for_cifar_only_stem_and_classifier_differ")
@pytest.mark.parametrize("name", ["resnet34", "googlenet", "resnet101", "densenet121"])
def test_large_forms_in_torch_as_well(name: str) -> None:
    with torch.device("meta"):
        module = build(image_model(name, LARGE, 1000), LARGE)
        assert module(torch.empty(2, *LARGE)).shape == (2, 1000)
    assert size_of(module) == count(image_model(name, LARGE, 1000), LARGE)


def start_of(module: nn.Module) -> list[Any]:
    """As the papers have it: He et al. (ICCV 2015) draw a kernel with variance 2 / (inputs of a unit)."""
    match module:
        case nn.Conv2d(weight=kernel, bias=bias):
            inputs = kernel[0].numel()
            return [normal(kernel.numel(), (2 / inputs) ** 0.5), *([] if bias is None else [constant(len(bias), 0.0)])]
        case nn.BatchNorm2d(num_features=channels):
            return [constant(channels, 1.0), constant(channels, 0.0)]
        case nn.Linear(in_features=inputs, out_features=units):
            return linear(inputs, units)
        case _:
            assert list(module.parameters(recurse=False)) == []
            return []


@pytest.mark.few(8)
@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_starts_in_the_order_of_torch_s_as_its_layer_does(name: str, shape: Shape) -> None:
    layers = image_model(name, shape, 10, TINY)
    with torch.device("meta"):
        module = build(layers, shape)
    found = initializers(layers, shape)
    assert found == [start for part in module.modules() for start in start_of(part)]
    assert [start.count for start in found] == [parameter.numel() for parameter in module.parameters()]


def test_what_star_s_workers_move_is_as_large_as_its_language_models() -> None:
    """STAR's logs: 45.3 and 44.6 MiB per worker and direction, 28,782 words; measured from byte counters."""
    for size, logged_mib in ((LSTMSize(), 45.3), (TransformerSize(), 44.6)):
        assert size.count(28_782) * 4 / 2**20 == pytest.approx(logged_mib, rel=0.03)
    for lstm in (LSTMSize(), LSTMSize(embedding=7, hidden=5, layers=3)):
        assert size_of(LSTM(lstm, WORDS)) == lstm.count(WORDS)
    for transformer in (TransformerSize(), TransformerSize(width=8, heads=2, feedforward=5, layers=3)):
        assert size_of(Transformer(transformer, WORDS)) == transformer.count(WORDS)


def test_xdeepfm_s_interaction_network_has_the_paper_s_count() -> None:
    """Lian et al., space complexity: sum of H_k (1 + H_(k-1) m) over layers; 3 fields, layers of 4 and 5 by hand."""
    fields = Fields(num_dense=1, cardinalities=(8, 12))
    size = XDeepFMSize(embedding=2, cin=(4, 5), hidden=(6,))
    assert size.cin_count(fields) == 4 * (1 + 3 * 3) + 5 * (1 + 4 * 3) == 105
    linear, table, deep = 21 + 1, 21 * 2, (6 * 6 + 6) + 6
    assert size.count(fields) == linear + table + deep + 105
    assert size_of(XDeepFM(size, fields)) == size.count(fields)


@pytest.mark.parametrize("crosses", [(), ((0, 1), (2, 3))])
def test_wide_and_deep_in_torch(crosses: tuple[tuple[int, int], ...]) -> None:
    size = WideDeepSize(embedding=2, hidden=(6, 5), crosses=crosses, cross_buckets=30)
    wide, table, deep = 203 + 30 * len(crosses) + 1, 200 * 2, (11 * 6 + 6) + (6 * 5 + 5) + 5
    assert size.count(FIELDS) == wide + table + deep
    assert size_of(WideDeep(size, FIELDS)) == size.count(FIELDS)


def test_torch_agrees_about_shapes_and_counts() -> None:
    """A shortcut of option A leaves pixels out and adds zeros."""
    cases: list[tuple[Layers, Shape, Shape]] = [
        ((Conv(5),), (3, 8, 9), (5, 8, 9)),
        ((Conv(5, 3, 2),), (3, 7, 7), (5, 4, 4)),
        ((Conv(5, 7, 2), MaxPool(3, 2, 1)), (3, 224, 224), (5, 56, 56)),
        ((Skip(6, 2),), (3, 7, 8), (6, 4, 4)),
        ((Concat(((), (Conv(4),))),), (3, 8, 8), (7, 8, 8)),
        ((Sum(((Conv(4, 3, 2),), (Skip(4, 2),))),), (3, 8, 8), (4, 4, 4)),
        ((Conv(2, depthwise=True),), (2, 8, 8), (2, 8, 8)),
    ]
    for layers, shape, after in cases:
        assert shape_after(layers, shape) == after
        module = build(layers, shape)
        assert module(torch.zeros(2, *shape)).shape == (2, *after)
        assert size_of(module) == count(layers, shape)
    short = build((Skip(3, 2),), (1, 4, 4))(torch.arange(16.0).view(1, 1, 4, 4))
    assert short[0, 0].tolist() == [[0, 2], [8, 10]]
    assert short[0, 1:].abs().sum() == 0


def test_a_causal_model_sees_nothing_of_what_comes() -> None:
    words = torch.randint(WORDS, (2, 9), generator=torch.Generator().manual_seed(0))
    changed = words.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % WORDS
    for module in (LSTM(LSTMSize(), WORDS), Transformer(TransformerSize(), WORDS)):
        before, after = module(words), module(changed)
        torch.testing.assert_close(before[:, :5], after[:, :5])
        assert (before[:, 5:] - after[:, 5:]).abs().max() > 1e-3


def test_rows_that_differ_have_other_scores() -> None:
    """The same id in two fields is two features, in every part of both models; and numbers reach the score."""
    for module in (XDeepFM(XDeepFMSize(), FIELDS), WideDeep(WideDeepSize(), FIELDS)):
        for one, other in (
            ([0, 0, 0, 7, 9, 0, 0], [0, 0, 0, 9, 7, 0, 0]),
            ([0, 0, 0, 1, 1, 1, 1], [5, 0, 0, 1, 1, 1, 1]),
        ):
            first, second = module(torch.tensor([one, other], dtype=torch.float32))
            assert first != second


def images(name: str) -> tuple[nn.Module, Tensor, Tensor, Any]:
    shape = (3, 64, 64) if name in ("resnet34", "resnet101") else SMALL  # made for more: 1 pixel would be left
    layers = image_model(name, shape, 10, TINY)
    module = build(layers, shape)
    vector_to_parameters(torch.from_numpy(draw(0, initializers(layers, shape))), module.parameters())
    return module, torch.randn(4, *shape), torch.arange(4), cross_entropy


def language(module: nn.Module) -> tuple[nn.Module, Tensor, Tensor, Any]:
    def loss(scores: Tensor, words: Tensor) -> Tensor:
        return cross_entropy(scores.flatten(0, 1), words.flatten())

    return module, torch.randint(WORDS, (4, 6)), torch.randint(WORDS, (4, 6)), loss


def clicks(module: nn.Module) -> tuple[nn.Module, Tensor, Tensor, Any]:
    rows = torch.cat([torch.rand(6, 3), torch.randint(20, (6, 4)).float()], dim=1)
    return module, rows, torch.tensor([1.0, 0, 0, 1, 1, 0]), binary_cross_entropy_with_logits


CASES: dict[str, Callable[[], tuple[nn.Module, Tensor, Tensor, Any]]] = {
    **{name: (lambda name=name: images(name)) for name in MODELS},
    "lstm": lambda: language(LSTM(LSTMSize(), WORDS)),
    "transformer": lambda: language(Transformer(TransformerSize(), WORDS)),
    "wide_deep": lambda: clicks(WideDeep(WideDeepSize(crosses=((0, 1),)), FIELDS)),
    "xdeepfm": lambda: clicks(XDeepFM(XDeepFMSize(), FIELDS)),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CASES)
def test_a_step_reduces_the_loss_and_reaches_every_layer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        densenet, "BLOCKS", (2, 3, 2, 2)
    )  # torch compiles a kernel for every width: 20 s for all of them
    torch.manual_seed(0)
    module, inputs, targets, loss_of = CASES[name]()
    parameters = list(module.parameters())
    before = loss_of(module(inputs), targets)
    grads = torch.autograd.grad(before, parameters)
    assert all(grad.isfinite().all() for grad in grads)
    moving = sum(bool(grad.abs().max() > 0) for grad in grads)
    assert moving >= 0.9 * len(grads), "narrow maps may be dead by chance, most are not"
    norm = torch.sqrt(sum((grad**2).sum() for grad in grads))
    with torch.no_grad():
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter -= 0.005 / norm * grad
    assert loss_of(module(inputs), targets) < before
