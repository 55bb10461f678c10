"""Scaling: how many nodes with how many cores a job should have, and how it gets there while it trains (pure).

``brain/`` plans and adjusts as DLRover does, ``optimus/`` grows by gain per cost, ``autoscale.py`` and ``replacing.py``
follow Or et al.; ``switch.py`` takes a running job from one set of servers to another, for all of them.
"""
