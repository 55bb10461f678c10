"""What models compute in TensorFlow, found out in one process for all of them, since other tests fork theirs.

A start takes as long as most models do. Run as ``python -m tests.unit.backends.tensorflow_process OUT.npz CASE...``.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.support.runs import ROOT
from tests.unit.backends import tensorflow_images, tensorflow_models
from tests.unit.backends.tensorflow_images import Facts

MODELS = "models"
"""The case of all models of clicks and language; the others are of :mod:`tests.unit.backends.tensorflow_images`."""


class Computed(NamedTuple):
    """Arrays by case and name, none if the process failed; and what it wrote on standard error."""

    facts: dict[str, Facts]
    said: str


def collect(directory: Path, cases: Iterable[str]) -> Computed:
    """Start the process and wait for its end."""
    out, found = directory / "facts.npz", defaultdict[str, Facts](dict)
    words = [sys.executable, "-W", "error", "-m", __name__, str(out), *cases]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        return Computed({}, done.stderr)
    for name, value in np.load(out).items():
        case, _, fact = name.partition("/")
        found[case][fact] = value
    return Computed(found, done.stderr)


def main() -> None:
    from runtime.backends.tensorflow_start import start_tensorflow

    start_tensorflow(1)
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")  # many models in one process look like one that is made again and again
    found = {MODELS: tensorflow_models.compute()} if MODELS in sys.argv[2:] else {}
    found |= tensorflow_images.compute(case for case in sys.argv[2:] if case != MODELS)
    np.savez(sys.argv[1], **{f"{case}/{name}": value for case, facts in found.items() for name, value in facts.items()})


if __name__ == "__main__":
    main()
