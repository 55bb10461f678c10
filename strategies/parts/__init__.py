"""Parts that methods share; a part that only one method has is in that method's folder.

``hooks`` says what a part can do, ``composition`` makes a strategy of parts, ``composed`` is the strategy whose parts a
configuration names; ``weights`` is for all of them. ``gates`` (when gradients are applied, and which workers may
compute then), ``load`` (the workers' numbers of samples), ``monitoring`` (data about nodes), ``nodes`` (actions on
tasks), ``sending`` (when gradients are sent), ``scaling`` (how a job gets more or fewer nodes).
"""
