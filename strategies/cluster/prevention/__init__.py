"""Prevention of new stragglers when a job changes its mode: what jobs on the same hosts give up for it (STAR, IV-D1).

Files in reading order: ``shares`` (what every task holds of its host, and how much it gives), ``times`` (what
that costs each job), ``star`` (the policy), ``none`` (nobody gives anything).
"""
