"""Programs that run in their own processes: the agent and its tasks."""
