"""Prague: replicas that average their parameters in small random groups, while other groups compute.

Configuration: ``prague``. Card: ``docs/methods/prague.md``. Paper tests: ``tests/paper/test_prague.py``.

Files in reading order: ``strategy`` (the method), ``divided`` (the gate: the group generator).
"""

from strategies.prague.strategy import Prague as Prague
