"""Periodic decisions about nodes, timers and pauses (pure)."""
