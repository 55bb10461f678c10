"""Models fitted to records."""
