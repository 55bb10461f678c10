"""Experiments: a description of runs that belong together, their measures in one frame, and a page about them."""
