"""The data sets by name, for ``python run.py data``."""

from __future__ import annotations

from workloads.datasets.adult import Adult
from workloads.datasets.base import Dataset
from workloads.datasets.cifar10 import Cifar10
from workloads.datasets.criteo import Criteo
from workloads.datasets.fashion_mnist import FashionMnist
from workloads.datasets.imagenet import ImageNet
from workloads.datasets.planted import Planted
from workloads.datasets.planted_topics import PlantedTopics
from workloads.datasets.wikitext2 import WikiText2

DATASETS: dict[str, type[Dataset]] = {
    own.name: own for own in (Cifar10, FashionMnist, WikiText2, Adult, Criteo, ImageNet, Planted, PlantedTopics)
}
