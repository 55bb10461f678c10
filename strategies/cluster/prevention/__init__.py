"""Prevention of new stragglers when a job changes its mode: what jobs on the same hosts give up for it (STAR, IV-D1).

Files in reading order: ``shares`` (what every task holds of its host), ``slack`` (what fast workers can give without
any loss), ``reduction`` (who gives the rest), ``times`` (what that costs each job), ``star`` (the policy).
"""
