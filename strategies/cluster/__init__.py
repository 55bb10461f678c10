"""Decisions for all jobs of a cluster: ``policies/`` say which job runs, ``placements/`` where (pure).

Both are plug-ins: a dataclass and a YAML in ``conf/policy/`` or ``conf/placement/``, as strategies are.
"""
