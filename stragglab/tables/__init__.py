"""Rows of experiments that need no run of their own, by arithmetic."""
