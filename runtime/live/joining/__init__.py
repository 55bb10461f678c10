"""The dialogue between a driver and agents that join by address, and when they fit together."""
