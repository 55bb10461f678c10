"""Tests here draw, and most of them are about something else."""

from tests.support.blank_figures import blank_figures  # noqa: F401
