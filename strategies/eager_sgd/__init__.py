"""Eager SGD: replicas sum when the first or a random worker has arrived; late gradients count in a later sum.

Configuration: ``eager_sgd``. Card: ``docs/methods/eager_sgd.md``. Paper tests: ``tests/paper/test_eager_sgd.py``.

Files in reading order: ``strategy`` (the method), ``initiated`` (the gate: which arrival begins a sum).
"""

from strategies.eager_sgd.strategy import EagerSGD as EagerSGD
