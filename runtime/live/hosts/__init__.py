"""Emulated hosts: one network namespace each, joined by a switch, behind links whose rate is exact and can change."""
