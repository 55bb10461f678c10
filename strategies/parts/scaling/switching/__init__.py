"""From one set of parameter servers to another while a job trains (DLRover section 5.3; pure).

``states`` has the phases and the only ways from one to another, as two tables; ``switch`` is the automaton.
"""
