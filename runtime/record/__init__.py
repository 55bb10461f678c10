"""Writes the record of a run, and shows its progress meanwhile."""
