"""Jobs with pipeline, tensor and data parallelism: a worker is a replica with stages inside (pure; numpy alone).

In reading order: ``graph.py`` (operations, what each waits for, and when all end), ``schedules.py`` (the order of a
stage's work), ``nodes.py`` and ``waiting.py`` (a training step's operations, and what each waits for), ``step.py``
(their graph and durations), ``scale.py`` (many replicas for many steps); ``operators.py`` (the graph of a measured job,
from its table of operators) and ``what_if.py`` (the costs of that job's stragglers).
"""
