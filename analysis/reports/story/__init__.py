"""What happened to a task, an update, a gradient or a job, and why, from the record alone."""
