"""LB-BSP: BSP whose batch sizes follow the predicted speed of every worker (Chen et al., SoCC 2020).

Configurations: ``lb_bsp`` (processors), ``lb_bsp_gpu`` (accelerators), ``lb_bsp_star`` (as STAR runs it). Card:
``docs/methods/lb_bsp.md``. Paper tests: ``tests/paper/test_lb_bsp.py``.

Files in reading order: ``strategy`` (the method), ``bounded`` (batches within bounds), ``forecast`` (predicted speeds),
``by_speed`` (batches in proportion to them), ``by_steps`` (samples move from the straggler to the leader).
"""

from strategies.lb_bsp.strategy import LBBSP as LBBSP
