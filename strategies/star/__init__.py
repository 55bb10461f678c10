"""STAR: the mode of synchronisation with the least predicted time per unit of progress, chosen again and again.

Configurations: ``star_h``, ``star_ml``, ``star_ahead``. Card: ``docs/methods/star.md``. Experiments: ``star_*``. Paper
tests: ``tests/paper/test_star*.py``, ``tests/paper/test_ring_children.py``.

Files in reading order: ``strategy`` (the method); times: ``predicted`` (the next iterations and their stragglers);
noise scale: ``noise``; costs of modes: ``orders`` (updates of x gradients by simulation), ``estimates`` (without),
``times`` (equations 1 to 3, and the price of staleness); which mode: ``choice``, ``deciding`` (how often), ``chooser``
(when), ``modal`` (the gate that has them); cluster: ``demands`` (a mode's needs, and whether it gets them); learning:
``features``, ``samples``, ``measuring`` (a mode's time), ``server_question``, ``learned`` (the model); without
servers: ``ring_modes``, ``ring_question``, ``ring``.
"""

from strategies.star.strategy import Star as Star
