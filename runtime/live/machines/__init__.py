"""What tasks are held to: control groups, their janitor, what this machine can do."""
