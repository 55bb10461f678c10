"""Strategies decide: pure automata from events to commands, one file per system (see ``strategies.protocol``)."""

from strategies.old_names import answer_old_names

answer_old_names()
