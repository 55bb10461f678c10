"""Logs of other people's jobs, read into one form: who needed how many seconds in which step."""
