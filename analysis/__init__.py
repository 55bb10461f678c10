"""Explains runs from their records alone: load -> tables -> metrics -> figures -> report. Imports no other package."""
