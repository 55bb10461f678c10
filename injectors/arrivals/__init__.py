"""Sources of jobs for a cluster: traces, tables, distributions. Each gives the same submissions for the same seed."""
