"""From a configuration to a finished record."""
