"""From a source of jobs to the records of jobs and cluster: shaping, checking, running a whole set."""
