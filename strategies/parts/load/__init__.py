"""Load policies: how many samples each worker computes (pure)."""
