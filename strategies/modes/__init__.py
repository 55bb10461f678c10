"""Schedules: when the gate changes its mode of synchronisation, and the cost of a change (pure)."""
