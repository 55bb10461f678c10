"""Unprivileged actuators that act on processes: stop and continue, done directly or by cpulimit."""
