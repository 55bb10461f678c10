"""Node policies: what is done to tasks, and what that costs (pure)."""
