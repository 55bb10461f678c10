"""Logs of other people's jobs, read into one form: every rank's seconds in every step."""
