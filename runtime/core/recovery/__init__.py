"""Which tasks restart when, and how all return to one version: one automaton for every runtime (pure).

A runtime passes it inputs (:mod:`runtime.core.recovery.inputs`) and carries out its effects
(:mod:`runtime.core.recovery.effects`): the live one with messages and processes, the virtual one by events that cost
time, the tests' harness at once.
"""
