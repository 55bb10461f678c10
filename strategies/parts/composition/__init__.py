"""How parts make a strategy: the slots, what fits together, and the strategy that drives them.

Files in reading order: ``strategies.parts.hooks`` (what a part can do), ``parts`` (which parts a system has,
and which combinations are refused), ``composition`` (passes events to the parts and turns their answers into
commands).
"""
