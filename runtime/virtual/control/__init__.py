"""Supervision and orders on the virtual clock, and the windows of a plan."""
