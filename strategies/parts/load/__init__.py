"""Load policies: who computes how many samples (pure)."""
