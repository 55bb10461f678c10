"""The story of a task, an update, a gradient or a job, with causes, from the record alone."""
