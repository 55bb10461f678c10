"""How parts make a strategy: which there are, what fits together, and the strategy that drives them.

Files in reading order: ``strategies.hooks`` (what a part may do), ``parts`` (which parts a system has), ``fitting``
(what is refused), ``composition`` (events to the parts, their answers to commands).

The parts themselves are in ``gates`` (when gradients are applied, and who may compute then), ``load`` (who computes how
much), ``part`` (what is known of nodes), ``modes`` (when the gate changes its mode), ``nodes`` (what is done to
tasks) and ``screens`` (which gradients count).
"""
