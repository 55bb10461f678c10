"""AD-PSGD: workers train alone, and each averages its parameters with a random neighbour while it computes.

Configuration: ``ad_psgd``. Card: ``docs/methods/ad_psgd.md``. Paper tests: ``tests/paper/test_ad_psgd.py``.

Files in reading order: ``strategy`` (the method), ``gossip`` (the gate: draws of neighbours), ``graphs`` (the
neighbours of a worker).
"""

from strategies.ad_psgd.strategy import ADPSGD as ADPSGD
