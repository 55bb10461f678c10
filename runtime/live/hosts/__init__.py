"""Emulated hosts: one network namespace each, joined by a switch, behind links of an exact, changeable rate."""
