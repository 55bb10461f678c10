"""Planned transfers (pure): ``tree`` says who sends through whom where an update waits for many workers."""
