"""Scaling: how a job gets other nodes while it trains, for all strategies that decide how many (pure).

``changes`` (the possible decisions), ``usage`` (the nodes' use), ``fleet`` (the present nodes), ``scaler`` (the part
of a strategy), ``resizing`` (one decision at a time), ``node_changes``, ``switch`` (from one set of servers to another,
DLRover section 5.3) and ``states`` (its phases, and the only ways from one to another).
"""
