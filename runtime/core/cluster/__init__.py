"""Many jobs on shared machines, as both runtimes see them: who waits, who runs where, what the policy may do (pure)."""
