"""Actuators that work on processes alone, without any privilege: stop and continue, by ourselves or by cpulimit."""
