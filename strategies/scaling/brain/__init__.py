"""DLRover's Brain: what a job needs, measured while it runs, and which resources it is given for that (pure).

Files in reading order: ``throughput`` (the model), ``plan`` (its integer solution), ``usage`` (what nodes use),
``requests`` (what they would use of their requests), ``history`` (what earlier jobs used), ``sampling`` (what a sample
says), ``changes`` (what can be decided), ``adjust`` and ``memory`` (rules of a running job), ``backoff`` (a rule whose
change was denied), ``stages`` and ``settings`` (which of them when), ``brain`` (one change at a time), ``planner`` (the
Brain as a strategy holds it).

Source: Wang et al., "DLRover: an elastic deep training extension with auto job resource recommendation", 2023.
"""
