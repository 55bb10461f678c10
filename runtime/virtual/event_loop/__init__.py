"""The event path compiled: jobs whose members do not change, with the real strategy."""
