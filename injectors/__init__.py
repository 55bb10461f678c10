"""Injectors disturb: patterns plan (pure and seeded), actuators carry a plan out."""
