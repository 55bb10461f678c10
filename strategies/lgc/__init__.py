"""LGC: synchronous training that waits for the fastest K; gradients that are one update late still count.

Configuration: ``lgc``. Card: ``docs/methods/lgc.md``. Experiment: ``star_fig29``. Paper tests:
``tests/paper/test_lgc.py``.

Files in reading order: ``strategy`` (the method), ``delayed`` (the gate: K fresh gradients and the late ones, whole or
partial), ``slowest`` (LGC-AR: which workers are the ring).
"""

from strategies.lgc.strategy import LGC as LGC
