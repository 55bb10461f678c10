"""MLfabric: asynchronous training whose transfers are ordered, so that delays are bounded and updates early.

Workers announce gradients, and a planner gives each a time on the network instead of letting all share it.

Configuration: ``mlfabric``. Card: ``docs/methods/mlfabric.md``. Experiments: ``mlfabric_*``. Paper tests:
``tests/paper/test_mlfabric*.py``.

Files in reading order: ``strategy`` (the method), ``fluid`` (the values of a plan; when a transfer ends, given what
others have reserved), ``order`` (deadlines, shortest first, drops, and which neighbours in that order are summed on the
way), ``bandwidths`` (what links carry, and what is overdue), ``replicas`` (what replicas lack), ``ordered`` (the gate
that plans, sends and applies).
"""

from strategies.mlfabric.strategy import MLfabric as MLfabric
