"""Parts that methods share; a part that only one method has is in that method's folder.

``hooks`` says what a part can do, ``composition`` makes a strategy of parts, ``composed`` is the strategy whose parts a
configuration names; ``weights`` is for all of them. ``gates`` (when gradients are applied, and who may compute then),
``load`` (who computes how much), ``monitoring`` (what is known of nodes), ``nodes`` (what is done to tasks),
``sending`` (when gradients are sent), ``screens`` (which gradients count), ``scaling`` (how a job gets more or fewer
nodes).
"""
