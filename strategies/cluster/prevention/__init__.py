"""Prevention of new stragglers when a job changes its mode: what jobs on the same hosts give up for it (STAR, IV-D1).

Files in reading order: ``shares`` (what every task holds of its host), ``reduction`` (who gives how much), ``times``
(what that costs each job), ``sensitivities`` (of STAR's models, for ``reduction``), ``star`` (the policy), ``none``
(nobody gives anything).
"""
