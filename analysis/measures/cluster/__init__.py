"""Measures of clusters: many jobs on shared hosts."""
