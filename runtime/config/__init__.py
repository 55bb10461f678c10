"""From the command line to one checked configuration."""
