"""What agents that join by address and their driver tell each other, and when they fit together."""
