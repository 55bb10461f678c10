"""The coordinator's process: supervision of tasks, orders to them, and their messages."""
