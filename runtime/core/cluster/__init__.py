"""Many jobs on shared machines, for both runtimes: waiting and running jobs, their places, and their policy (pure)."""
