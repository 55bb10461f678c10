"""Strategies decide: pure automata from events to commands, one file per system (see ``strategies.protocol``)."""
