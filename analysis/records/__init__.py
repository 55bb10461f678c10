"""Records read back: rows, tables, integrity."""
