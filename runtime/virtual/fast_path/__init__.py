"""The fast path: jobs that are regular enough to compute many events at once."""
