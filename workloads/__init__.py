"""Workloads: models and data behind one small interface per backend."""
