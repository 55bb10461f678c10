"""What decides for all jobs of a cluster together."""
