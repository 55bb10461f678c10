"""Figures of an experiment, a file per kind (``figure.kind``): each has ``draw(path, results)``."""
