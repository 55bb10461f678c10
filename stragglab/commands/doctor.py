"""What this machine can do for live runs; with ``--cluster SETTINGS``: what the machines of a launcher can."""

from runtime.run.doctor import main as main
