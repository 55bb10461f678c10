"""Optimizers, learning-rate schedules, and the progress model that replaces gradients."""
