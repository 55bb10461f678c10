"""Detectors: measurements of workers and servers, and which of them are slow (pure)."""
