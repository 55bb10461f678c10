"""SGP: after each step of its own a worker sends half of its parameters to another one, and waits for a half itself.

Configuration: ``sgp``. Card: ``docs/methods/sgp.md``. Paper tests: ``tests/paper/test_sgp.py``.

Files in reading order: ``strategy`` (the method), ``pushing`` (the gate: which worker sends to which, and who waits).
"""

from strategies.sgp.strategy import SGP as SGP
