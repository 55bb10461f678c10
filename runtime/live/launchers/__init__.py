"""The launchers, which start the agents of a job on its nodes."""
