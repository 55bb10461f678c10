"""Methods that are a rule of waiting and no more.

Configurations, each with a file and a card of its own: ``bsp``, ``asp`` (and ``asp_even``), ``ssp``,
``backup_workers``, ``first_k``, ``static_x``, ``dynamic_x``. Cards: ``docs/methods/bsp.md``, ``docs/methods/asp.md``,
``docs/methods/ssp.md``, ``docs/methods/backup_workers.md``, ``docs/methods/first_k.md``, ``docs/methods/static_x.md``,
``docs/methods/dynamic_x.md``. Paper tests: ``tests/paper/test_NAME.py`` of each; all of them against simulations that
are written from the sentences of the papers: ``tests/paper/test_gates_by_their_texts.py``.

Files in reading order: ``bsp``, ``asp``, ``ssp``; ``first_fresh`` (the gate of the two that follow),
``backup_workers``, ``first_k``; ``static_x``, ``dynamic_x`` with their gates and clusters.
"""
