"""What is observed of workers and servers, and who is slow by it (pure)."""
