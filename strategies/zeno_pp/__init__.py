"""Zeno++: a gradient is applied only if held-out samples say that it is a descent (Xie et al., ICML 2020).

Configuration: ``zeno_pp``. Card: ``docs/methods/zeno_pp.md``. Paper tests: ``tests/paper/test_zeno_pp.py``.
"""

from strategies.zeno_pp.strategy import ZenoPP as ZenoPP
