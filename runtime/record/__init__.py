"""What is written down of a run, and shown while it goes on."""
