"""Experiments: the description of a set of runs, their measures in one frame, and a page about them."""
