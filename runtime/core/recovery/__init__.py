"""Who is started again when, and how everybody comes back to one version: one automaton for every runtime (pure).

A runtime tells it what has happened (:mod:`runtime.core.recovery.inputs`) and carries out what it answers
(:mod:`runtime.core.recovery.effects`): the live one with messages and processes, the virtual one by events that cost
time, the tests' harness at once.
"""
