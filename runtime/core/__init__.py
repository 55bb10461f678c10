"""The parts that both runtimes share, all pure: coordinator, ledger, membership, data service, recovery."""
