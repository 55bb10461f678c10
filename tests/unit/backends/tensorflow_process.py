"""What models compute in TensorFlow, found out in one process for all of them, since other tests fork theirs.

A start takes as long as all models but the largest.
Run as ``python -m tests.unit.backends.tensorflow_process OUT.npz CASE...``.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.support import tensorflow_facts
from tests.support.runs import ROOT
from workloads.digits import Digits

BACKEND, MODELS = "backend", "models"
"""The cases of the backend itself (:mod:`tests.support.tensorflow_facts`), and of models of clicks and language, which
are named as cases, too; the others are of :mod:`tests.unit.backends.tensorflow_images`."""
Facts = dict[str, Any]


def with_dropout(name: str) -> str:
    """The case of a model that drops half of its values."""
    return f"{name}, dropping"


class Computed(NamedTuple):
    """Arrays by case and name, none if the process failed; and what it wrote on standard error."""

    facts: dict[str, Facts]
    said: str


def collect(directory: Path, cases: Collection[str]) -> Computed:
    """Start the process and wait for its end."""
    out, found = directory / "facts.npz", defaultdict[str, Facts](dict)
    words = [sys.executable, "-W", "error", "-m", __name__, str(out), *cases]
    if BACKEND in cases:
        Digits(data_dir=str(directory)).prepare()
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        return Computed({}, done.stderr)
    for name, value in np.load(out).items():
        case, _, fact = name.partition("/")
        found[case][fact] = value
    return Computed(found, done.stderr)


def main(out: str, *cases: str) -> None:
    # first of all, since it looks at what has been imported until then
    found = {BACKEND: tensorflow_facts.compute(str(Path(out).parent))} if BACKEND in cases else {}
    from runtime.backends.tensorflow_start import start_tensorflow

    start_tensorflow(1)
    import tensorflow as tf

    from tests.unit.backends import tensorflow_images, tensorflow_models

    tf.get_logger().setLevel("ERROR")  # many models in one process look like one that is made again and again
    models = [name for name in tensorflow_models.TASKS if name in cases]
    dropping = [name for name in tensorflow_models.DROPPING if with_dropout(name) in cases]
    found |= {MODELS: tensorflow_models.compute(models, dropping)} if MODELS in cases else {}
    others = {BACKEND, MODELS, *models, *map(with_dropout, dropping)}
    found |= tensorflow_images.compute(case for case in cases if case not in others)
    np.savez(out, **{f"{case}/{name}": value for case, facts in found.items() for name, value in facts.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
