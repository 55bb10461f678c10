"""Where the tasks of a job go: one placement per file; ``conf/placement/`` is their registry.

All of them keep gangs whole. A worker needs a GPU of its own; servers need none, and what they are expected to use
limits nothing, so whether a job has a place depends on the free GPUs alone.
"""
