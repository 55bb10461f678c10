"""Check what this machine, or with ``--cluster SETTINGS`` the machines of a launcher, can do for live runs."""

from runtime.run.doctor import main as main
