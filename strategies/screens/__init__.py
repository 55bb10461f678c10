"""Screens: which gradients count, by their score against a reference gradient (pure)."""
