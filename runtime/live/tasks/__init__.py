"""What runs in processes of its own: the agent and its tasks."""
