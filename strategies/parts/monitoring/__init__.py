"""Detectors: measurements of workers and servers that several methods use (pure)."""
