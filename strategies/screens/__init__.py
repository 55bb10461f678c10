"""Screens: which gradients count at all, by their score against a reference gradient (pure)."""
