"""Figures: functions of a tidy frame and an Axes, without files and statistics; `single` and `several` compose them."""
