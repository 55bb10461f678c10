"""Spans that a lab skips, every job at its measured rate (``replay.detail=measured``; pure).

Files in reading order: ``pace`` (how fast a job is), ``jumps`` (when, and how far), ``skipping`` (what is booked).
"""
