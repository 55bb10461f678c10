"""Reads records back: rows, tables, integrity."""
