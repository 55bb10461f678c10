"""Machines of live runs: control groups, their janitor, tests of this machine's capabilities."""
