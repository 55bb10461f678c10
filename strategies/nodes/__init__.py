"""Node policies: actions on tasks, and their cost (pure)."""
