"""Workers that train parameters of their own, and make them common from time to time, on all-reduce.

Configurations: ``local_sgd``, ``post_local_sgd``, ``diloco``, ``streaming_diloco``, ``decoupled_diloco``,
``async_local_sgd``. Card: ``docs/methods/local_sgd.md``. Paper tests: ``tests/paper/test_local_sgd.py``.

Files in reading order: ``local_sgd``, ``post_local_sgd``, ``diloco``, ``async_local_sgd``; their gates ``periodic``,
``streaming`` (fragments) and ``decoupled`` (a quorum).
"""

from strategies.local_sgd.async_local_sgd import AsyncLocalSGD as AsyncLocalSGD
from strategies.local_sgd.diloco import DiLoCo as DiLoCo
from strategies.local_sgd.local_sgd import LocalSGD as LocalSGD
from strategies.local_sgd.post_local_sgd import PostLocalSGD as PostLocalSGD
