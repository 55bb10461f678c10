"""Reads records back: one pass over a log, tables, integrity, and columns stored for later loads."""
