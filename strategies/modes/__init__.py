"""Schedules: when the gate changes the way in which it synchronises, and what that costs (pure)."""
