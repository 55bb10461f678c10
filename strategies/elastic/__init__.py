"""Two methods that let a job grow while it trains, DLRover's rivals: ``optimus`` and ``or_autoscale``.

Configurations: ``optimus``, ``or_autoscale``. Cards: ``docs/methods/optimus.md``, ``docs/methods/or_autoscale.md``.
Experiments: ``dlrover_fig9ab``, ``dlrover_fig9cd``. Paper tests: ``tests/paper/test_optimus*.py``,
``tests/paper/test_or_autoscale*.py``.
"""
