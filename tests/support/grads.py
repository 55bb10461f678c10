"""Gradients for what sees events only."""

from __future__ import annotations

from typing import Any

from strategies.protocol import Grad


def make_grad(worker: int = 0, samples: int = 1, **about: Any) -> Grad:
    """Of a first process on the first parameters, with all samples that were asked for, unless ``about`` differs."""
    usual = {"id": worker, "incarnation": 0, "iteration": 0, "version": 0, "assigned_samples": samples}
    return Grad(worker=worker, samples=samples, **{**usual, **about})
