"""Who starts the agents of a job on its nodes."""
