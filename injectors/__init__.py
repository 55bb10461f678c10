"""Injectors disturb: patterns make plans (pure and seeded), actuators carry them out."""
