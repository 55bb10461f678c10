"""DLRover's Brain: what a job needs, measured while it runs, and which resources it is given for that (pure).

Files in reading order: ``throughput`` (the model), ``plan`` (its integer solution), ``usage`` (what nodes use),
``history`` (what earlier jobs used), ``changes`` (what can be decided), ``adjust`` and ``memory`` (rules of a running
job), ``stages`` (which of them when).

Source: Wang et al., "DLRover: an elastic deep training extension with auto job resource computation", 2023.
"""
