"""The program that joins a run by address: ``python -m runtime.live.agent --join ADDRESS:PORT --token-file FILE``."""
