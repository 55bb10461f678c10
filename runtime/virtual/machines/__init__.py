"""Processors and links that tasks share on the virtual clock."""
