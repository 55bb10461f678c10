"""Whether one job can run: what its configuration names is built and checked before anything starts.

Files in reading order: ``job`` (all of it; each subject is left to one of the others), ``devices``, ``hogs`` (other
work on GPUs), ``topologies``, ``followers`` (replicas of the server), ``norms`` (of updates, that a strategy
measures), ``pacing`` (iterations by which it predicts), ``resources`` (of the machine).
"""
