"""Measures of one record or of many."""
