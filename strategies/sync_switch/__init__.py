"""Sync-Switch: BSP at the beginning and while no worker is slow, ASP for the rest (Li et al., ICDCS 2021).

Configurations: ``sync_switch``, ``sync_switch_elastic``, ``sync_switch_restart``. Card:
``docs/methods/sync_switch.md``. Paper tests: ``tests/paper/test_sync_switch*.py``.

Files in reading order: ``strategy`` (the method), ``flagged`` (which workers are slow, as STAR measures it or by
medians), ``sync_then_async`` (when the mode changes, hot or by a restart), ``switching`` (the gate that changes).
"""

from strategies.sync_switch.strategy import SyncSwitch as SyncSwitch
