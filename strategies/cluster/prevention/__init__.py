"""Prevention of new stragglers when a job changes its mode: jobs on its hosts give up resources (STAR, IV-D1).

Files in reading order: ``shares`` (every task's share of its host, and how much it gives), ``times`` (the cost to each
job), ``star`` (the policy), ``none`` (no job gives anything).
"""
