"""DropCompute: a worker stops after a threshold of compute time and sums what it has (Giladi et al., NeurIPS 2023).

Configuration: ``dropcompute``. Card: ``docs/methods/dropcompute.md``. Experiments: ``dropcompute_*``. Paper tests:
``tests/paper/test_dropcompute.py``.

Files in reading order: ``strategy`` (the method), ``in_time`` (orders with a threshold, the profile, the mean),
``threshold`` (which threshold has the highest effective speed-up).
"""

from strategies.dropcompute.strategy import DropCompute as DropCompute
