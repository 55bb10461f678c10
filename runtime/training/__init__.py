"""Optimizers, learning rates, and progress models in place of gradients."""
