"""The model of shared machines in C, one header per idea, built into ``_hosts``; every part has a twin in Python."""
