"""How parts make a strategy: the slots, what fits together, and the strategy that drives them.

Files in reading order: ``strategies.parts.hooks`` (what a part can do), ``parts`` (which parts a system has,
and which combinations are refused), ``composition`` (passes events to the parts and turns their answers into
commands).

The parts themselves are in ``gates`` (when gradients are applied, and who may compute then), ``load`` (who computes how
much), ``monitoring`` (what is known of nodes), ``nodes`` (what is done to
tasks) and ``screens`` (which gradients count).
"""
