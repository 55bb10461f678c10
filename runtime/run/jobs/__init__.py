"""From a source of jobs to their records and that of the cluster: shaping, checking, running a whole set."""
