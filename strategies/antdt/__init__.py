"""AntDT: batches and restarts against stragglers, in two solutions (ICDE 2024).

Configurations: ``antdt_nd``, ``antdt_nd_asp`` (shared clusters), ``antdt_dd`` (unequal devices). Cards:
``docs/methods/antdt_nd.md``, ``docs/methods/antdt_dd.md``. Experiments: ``antdt_*``. Paper tests:
``tests/paper/test_antdt_nd*.py``, ``tests/paper/test_antdt_dd.py``.

Files in reading order: ``antdt_nd`` (the first solution), ``monitor`` (recent speed of every node), ``detector`` (nodes
that are slow at equal work), ``kill_restart`` (nodes that get another machine), ``adjust_bs`` (workers that get a
smaller batch); ``antdt_dd`` (the second: one plan of batches and micro-batches), ``profiling`` (every device's time by
samples, and whether that still holds), ``micro_batches`` (Eq. 4).
"""
