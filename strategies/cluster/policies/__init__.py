"""Which job starts, and which gives its GPUs back: one policy per file; ``conf/policy/`` is their registry."""
