"""Watchdog: synchronous training in which a detector's alarms restart workers elsewhere.

Configuration: ``watchdog``. Card: ``docs/methods/watchdog.md``. Experiment: ``detectors_regret``.

Files in reading order: ``strategy`` (the method), ``alarms`` (any straggler predictor as a detector of nodes).
"""

from strategies.watchdog.strategy import Watchdog as Watchdog
